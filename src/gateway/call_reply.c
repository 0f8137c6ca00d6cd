/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent's side of a call: the engine's head goes on as it is, the framing is ours. */
#include "gateway/call.h"

/* What one buffered send may grow to before the buffer is given back. */
#define REPLY_KEEP_MAX (128u * 1024)

/* Such an answer has no body, whatever its head says. */
static bool has_no_body(const struct call *c) {
    return c->status == 204 || c->status == 304 || sv_eq(exchange_head(c->x)->method, SV("HEAD"));
}

static int put_head(struct call *c, enum http1_framing framing, uint64_t length, struct buf *out) {
    struct err e;
    int rc = http1_put_status(out, c->status, buf_sv(&c->reason), &e);
    rc = rc < 0 ? rc : buf_add_sv(out, buf_sv(&c->fields));
    if (rc == 0 && c->status != 204 && c->status != 304) {
        rc = http1_put_framing(out, framing, length, &e);
    }
    if (rc == 0 && framing != HTTP1_UNTIL_CLOSE && !exchange_keeps(c->x)) {
        rc = http1_put_field(out, SV("Connection"), SV("close"), &e);
    }
    return rc < 0 ? rc : http1_put_end(out, &e);
}

void reply_start(struct call *c, bool has_length, uint64_t length) {
    if (!c->x || c->answer_started) {
        return;
    }
    enum http1_framing framing = has_length ? HTTP1_LENGTH : HTTP1_CHUNKED;
    if (!has_length && exchange_head(c->x)->minor == 0) {
        framing = HTTP1_UNTIL_CLOSE;
    }
    if (c->status >= 400) { /* An agent may leave, or ask again, at the sight of it. */
        call_note_body(c, /* failed= */ true);
    }
    c->answer_started = true;
    c->agent_chunked = framing == HTTP1_CHUNKED && !has_no_body(c);
    c->agent_until_close = framing == HTTP1_UNTIL_CLOSE;
    if (put_head(c, framing, length, &c->reply_head) < 0) {
        buf_reset(&c->reply_head);
        reply_cut(c);
    }
}

/* The head, if it is still due, payload, and the end in one write: each costs a system call and
 * wakes the agent. */
static void send_all(struct call *c, struct sv payload, bool is_last) {
    char line[HTTP1_CHUNK_HEAD_MAX];
    struct sv parts[5];
    size_t n = 0;
    if (c->reply_head.len > 0) {
        parts[n++] = buf_sv(&c->reply_head);
    }
    if (payload.n > 0 && !has_no_body(c)) {
        if (c->agent_chunked) {
            parts[n++] = http1_chunk_head(line, payload.n);
        }
        parts[n++] = payload;
        if (c->agent_chunked) {
            parts[n++] = HTTP1_CHUNK_TAIL;
        }
    }
    if (is_last && c->agent_chunked) {
        parts[n++] = HTTP1_LAST_CHUNK;
    }
    if (n > 0) {
        (void)exchange_send_rawv(c->x, parts, n); /* A lost agent is told by on_gone. */
    }
    buf_reset(&c->reply_head);
}

void reply_send(struct call *c, struct sv payload) {
    if (!c->x) {
        return;
    }
    send_all(c, payload, /* is_last= */ false);
    if (c->up && exchange_is_full(c->x)) {
        upstream_pause(c->up);
    }
}

/* All calls fill the same memory in turn: it stays in the processor's cache. */
void reply_take_room(struct call *c) {
    if (!c->out.data) {
        c->out = c->worker->out;
        c->worker->out = (struct buf){0};
    }
}

static void drop_out(struct call *c) {
    if (c->out.cap > REPLY_KEEP_MAX || c->worker->out.data) {
        buf_deinit(&c->out);
    } else {
        buf_reset(&c->out);
        c->worker->out = c->out;
        c->out = (struct buf){0};
    }
}

void reply_flush(struct call *c) {
    reply_send(c, buf_sv(&c->out));
    drop_out(c);
}

void reply_end(struct call *c) {
    struct exchange *x = c->x;
    if (!x) {
        return;
    }
    send_all(c, buf_sv(&c->out), /* is_last= */ true);
    drop_out(c);
    c->x = NULL;
    if (c->agent_until_close) {
        exchange_cut(x, EXCHANGE_CUT_FIN);
    } else {
        exchange_end(x);
    }
}

void reply_cut(struct call *c) {
    struct exchange *x = c->x;
    c->x = NULL;
    if (x) {
        /* Without a length or chunks a FIN would look like a proper end. */
        exchange_cut(x, c->agent_until_close ? EXCHANGE_CUT_RESET : EXCHANGE_CUT_FIN);
    }
}

bool reply_is_unsent(const struct call *c) {
    return !c->answer_started || c->reply_head.len > 0;
}

void reply_error(struct call *c, const struct err *err) {
    struct exchange *x = c->x;
    c->x = NULL;
    if (x) {
        exchange_reply_err(x, err);
    }
}
