/* SPDX-License-Identifier: BSD-3-Clause */
/* An answer that is no stream: passed on but for its last byte, or collected and put right. */
#include "base/clock.h"
#include "gateway/call.h"

/* What is kept of a failure's text. */
#define WHOLE_FAILURE_MAX (256u * 1024)

/* A copy for the record, bounded. */
static int keep(struct call *c, struct sv payload) {
    size_t most = c->status >= 400 ? WHOLE_FAILURE_MAX : CALL_ANSWER_MAX;
    if (c->answer_too_big || c->answer.len + payload.n > most) {
        c->answer_too_big = true;
        return 0;
    }
    return buf_add_sv(&c->answer, payload);
}

/* But for the last byte. */
int call_whole_pass(struct call *c, struct sv payload) {
    if (!c->record || payload.n == 0) {
        return buf_add_sv(&c->out, payload);
    }
    int rc = buf_add_sv(&c->out, buf_sv(&c->held));
    rc = rc < 0 ? rc : buf_add(&c->out, payload.p, payload.n - 1);
    buf_reset(&c->held);
    return rc < 0 ? rc : buf_addc(&c->held, payload.p[payload.n - 1]);
}

/* Too big to be held: what there is goes on, and the rest as it comes. */
static int give_up(struct call *c) {
    c->answer_too_big = c->mode == MODE_WHOLE;
    c->mode = MODE_PASS;
    c->restores = false;
    reply_start(c, c->has_length, c->length);
    return call_whole_pass(c, buf_sv(&c->answer));
}

static int collect(struct call *c, struct sv payload) {
    size_t most = c->mode == MODE_PROBE ? CALL_REFUSAL_MAX : CALL_ANSWER_MAX;
    if (c->answer.len + payload.n <= most) {
        return buf_add_sv(&c->answer, payload);
    }
    int rc = c->answer.len > 0 ? give_up(c) : 0;
    rc = rc < 0 ? rc : keep(c, payload);
    return rc < 0 ? rc : call_whole_pass(c, payload);
}

int call_whole_body(struct call *c, struct sv payload, struct err *err) {
    int rc;
    if (payload.n == 0) {
        return 0;
    }
    if (c->first_us == 0) {
        c->first_us = clock_us();
    }
    if (c->mode == MODE_PASS) {
        rc = keep(c, payload);
        rc = rc < 0 || c->copies ? rc : call_whole_pass(c, payload);
    } else {
        rc = collect(c, payload);
    }
    return rc < 0 ? err_set(err, rc, "cannot keep the engine's answer: %s", err_name(rc)) : 0;
}

/* Reads the answer for the record; with edits, puts it right for the agent. */
static int read_answer(struct call *c) {
    int rc = chunk_parse(&c->chunk, buf_sv(&c->answer));
    if (rc < 0) {
        c->capture.n_bad_events += rc != ERR_NOMEM;
        return rc == ERR_NOMEM
                   ? rc
                   : buf_add_sv(&c->held, c->mode == MODE_WHOLE ? buf_sv(&c->answer) : SV(""));
    }
    rc = capture_add(&c->capture, &c->chunk);
    if (rc == 0 && c->mode == MODE_WHOLE) {
        rc = restore_chunk(&c->plan, &c->chunk, buf_sv(&c->answer), &c->splice, &c->held);
    }
    return rc;
}

int call_whole_end(struct call *c) {
    if (c->status < 400 && !c->is_unreadable && !c->answer_too_big && !c->is_models) {
        return read_answer(c);
    }
    return c->mode == MODE_PASS ? 0 : buf_add_sv(&c->held, buf_sv(&c->answer));
}
