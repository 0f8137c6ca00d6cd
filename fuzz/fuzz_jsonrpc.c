/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream of lines, each a message to a session of either face: each is answered once, with
 * nothing or with one object of JSON-RPC that has a result or an error and not both; MCP's has no
 * id that is null. A stream cut in two gives the same lines. Calls of the tool are refused before
 * they begin. */
#include <stdint.h>

#include "base/json.h"
#include "server/mcp/lines.h"
#include "server/mcp/rpc.h"

static struct loop *loop;
static struct tool_box *box;

struct run {
    struct rpc *rpc;
    enum rpc_face face;
    unsigned asked;
    unsigned answered;
};

static void on_answer(void *arg, struct sv message) {
    struct run *r = arg;
    AUTO_JSON json_t *value = NULL;
    r->answered++;
    if (message.n == 0) {
        BUG_IF(r->face == RPC_OPENENV);
        return;
    }
    BUG_IF(json_parse(message, "answer", &value, NULL) < 0 || !json_is_object(value));
    BUG_IF(!json_object_get(value, "result") == !json_object_get(value, "error"));
    BUG_IF(r->face == RPC_MCP && json_is_null(json_object_get(value, "id")));
    BUG_IF(r->face == RPC_OPENENV && !json_object_get(value, "id"));
}

static void on_note(void *arg, struct sv message) {
    (void)arg;
    (void)message;
    BUG_IF(1); /* No call begins. */
}

static void on_line(void *arg, struct sv line, bool is_too_long) {
    struct run *r = arg;
    struct rpc_sink sink = {on_note, on_answer, r};
    BUG_IF(is_too_long);
    r->asked++;
    rpc_feed(r->rpc, line, &sink);
}

static void feed(struct run *r, struct sv bytes, size_t cut) {
    struct mcp_lines lines = {0};
    BUG_IF(mcp_lines_feed(&lines, (struct sv){bytes.p, cut}, on_line, r, NULL) < 0);
    BUG_IF(mcp_lines_feed(&lines, sv_cut(bytes, cut), on_line, r, NULL) < 0);
    mcp_lines_end(&lines, on_line, r);
}

struct input {
    struct sv bytes;
    struct run runs[2];
};

static void begin(void *arg) {
    struct input *in = arg;
    for (int i = 0; i < 2; i++) {
        struct run *r = &in->runs[i];
        r->face = i ? RPC_OPENENV : RPC_MCP;
        struct rpc_options o = {.tools = box, .loop = loop, .face = r->face};
        BUG_IF(rpc_new(&o, &r->rpc, NULL) < 0);
        feed(r, in->bytes, i ? in->bytes.n / 2 : in->bytes.n);
    }
}

/* Refusals of the tool came before this. */
static void end(void *arg) {
    struct input *in = arg;
    BUG_IF(in->runs[0].asked != in->runs[1].asked);
    for (int i = 0; i < 2; i++) {
        BUG_IF(in->runs[i].asked != in->runs[i].answered || rpc_calls(in->runs[i].rpc) > 0);
        rpc_free(in->runs[i].rpc);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {.bytes = {(const char *)data, size}};
    if (!loop) {
        struct tool_options o = {0};
        BUG_IF(loop_new(&loop, NULL) < 0 || tool_box_new(&o, &box, NULL) < 0);
        tool_box_refuse(box);
    }
    loop_call(loop, begin, &in);
    loop_call(loop, end, &in);
    return 0;
}
