/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/stdio_serve.h"

#include "base/fd.h"
#include "server/mcp/lines.h"
#include "server/mcp/outbox.h"
#include "server/mcp/rpc.h"

#define READ_BYTES 65536 /* What a pipe holds. */
#define LOOK_MS 20       /* How often the end of the calls is looked for. */

struct stdio {
    const struct mcp_stdio_options *o;
    struct cancel *end; /* Thrown with `soft`, and when nobody reads. */
    struct loop *loop;
    struct rpc *rpc;
    struct outbox *outbox;
};

static void on_note(void *arg, struct sv message) {
    struct stdio *s = arg;
    outbox_add_note(s->outbox, message);
}

static void on_answer(void *arg, struct sv message) {
    struct stdio *s = arg;
    if (message.n > 0) {
        outbox_add(s->outbox, message);
    }
}

/* A line on its way to the loop, which the reader waits for. */
struct fed {
    struct stdio *stdio;
    struct sv line;
    bool is_too_long;
};

static void feed(void *arg) {
    struct fed *f = arg;
    struct rpc_sink sink = {on_note, on_answer, f->stdio, "stdio"};
    if (f->is_too_long) {
        on_answer(f->stdio, SV("{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":"
                               "\"Invalid request: the message is longer than 64 MB\"}}"));
    } else {
        rpc_feed(f->stdio->rpc, f->line, &sink);
    }
}

static void on_line(void *arg, struct sv line, bool is_too_long) {
    struct stdio *s = arg;
    struct fed f = {s, line, is_too_long};
    loop_call(s->loop, feed, &f);
    outbox_wait(s->outbox, s->end);
}

static int read_all(struct stdio *s, struct mcp_lines *lines, struct err *err) {
    char bytes[READ_BYTES];
    for (;;) {
        ssize_t n = fd_read_some(s->o->in, bytes, sizeof bytes, DEADLINE_NEVER, s->end, err);
        if (n == 0) {
            mcp_lines_end(lines, on_line, s);
        }
        if (n <= 0) {
            return n == ERR_CANCELLED || n == ERR_CLOSED ? 0 : (int)n;
        }
        int r = mcp_lines_feed(lines, (struct sv){bytes, (size_t)n}, on_line, s, err);
        if (r < 0) {
            return r;
        }
    }
}

static void wait_calls(struct stdio *s) {
    bool is_hard = false;
    tool_box_cancel(s->o->tools, /* hard= */ false);
    while (tool_box_calls(s->o->tools) > 0) {
        if (!is_hard && cancel_thrown(s->o->hard)) {
            is_hard = true;
            tool_box_cancel(s->o->tools, /* hard= */ true);
        }
        clock_sleep_ms(LOOK_MS);
    }
}

static void close_rpc(void *arg) {
    struct stdio *s = arg;
    rpc_free(s->rpc);
}

static int serve(struct stdio *s, struct err *err) {
    struct mcp_lines lines = {0};
    struct rpc_options rpc = {.tools = s->o->tools, .loop = s->loop, .face = RPC_MCP};
    int r = rpc_new(&rpc, &s->rpc, err);
    if (r < 0) {
        return r;
    }
    r = read_all(s, &lines, err);
    mcp_lines_deinit(&lines);
    wait_calls(s);
    loop_call(s->loop, close_rpc, s);
    return r;
}

int mcp_stdio_run(const struct mcp_stdio_options *o, struct err *err) {
    struct stdio s = {.o = o};
    int r = cancel_new_under(o->soft, &s.end, err);
    r = r < 0 ? r : outbox_new(o->out, s.end, o->hard, &s.outbox, err);
    r = r < 0 ? r : loop_new(&s.loop, err);
    if (r == 0) {
        r = serve(&s, err);
        loop_free(s.loop);
    }
    outbox_free(s.outbox);
    cancel_free(s.end);
    return r;
}
