/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/call.h"

#include <stdlib.h>

#include "base/clock.h"

/* Calls kept for reuse with their buffers: those of 64 busy connections, and some more. */
#define CALL_SPARE_MAX 96u
/* A spare call's buffers above this are given back. */
#define CALL_KEEP_MAX (128u * 1024)

static void on_agent_gone(struct exchange *x, void *arg) {
    (void)x;
    call_abort(arg);
}

static void on_agent_drained(struct exchange *x, void *arg) {
    struct call *c = arg;
    (void)x;
    if (c->up && !(c->is_holding && c->held.len > CONN_QUEUE_HIGH)) {
        upstream_resume(c->up);
    }
}

void call_abort(struct call *c) {
    upstream_cancel(c->up); /* The engine stops generating. */
    c->up = NULL;
    c->upstream_over = true;
    if (!c->is_ending) {
        c->end = END_CLIENT_ABORT;
        c->is_ending = true;
    }
    call_advance(c);
}

static struct call *take_spare(struct worker *w) {
    struct call *c = w->spare_calls;
    if (!c) {
        return calloc(1, sizeof *c);
    }
    w->spare_calls = c->next;
    w->n_spare_calls--;
    c->next = NULL;
    return c;
}

static void put_spare(struct worker *w, struct call *c) {
    c->next = w->spare_calls;
    w->spare_calls = c;
    w->n_spare_calls++;
}

/* NULL: the request was answered with an error. */
static struct call *new_call(struct worker *w, struct gateway_session *s, struct exchange *x) {
    struct err e = {0};
    struct call *c = take_spare(w);
    if (!c) {
        err_set(&e, ERR_NOMEM, "out of memory");
    } else if (session_enter(s, &c->use, &e) < 0) {
        put_spare(w, c);
        c = NULL;
    }
    if (!c) {
        w->stats.refused++;
        /* No engine is named: OpenEnv's clients take 503 for that, 502 for one that fails. */
        exchange_reply_err_as(x, e.code == ERR_UPSTREAM ? 503 : err_http_status(e.code), &e);
        return NULL;
    }
    c->worker = w;
    c->session = s;
    c->x = x;
    c->next = w->calls;
    if (w->calls) {
        w->calls->prev = c;
    }
    w->calls = c;
    w->gateway->calls_open++;
    const char *key = c->use.target->api_key;
    c->redact.key = key ? sv_from(key) : (struct sv){0};
    c->agent_body = exchange_body(x);
    c->asked_us = clock_us();
    exchange_on_gone(x, on_agent_gone, c);
    exchange_on_drain(x, on_agent_drained, c);
    return c;
}

static void clear(struct buf *b) {
    if (b->cap > CALL_KEEP_MAX) {
        buf_deinit(b);
    } else {
        buf_reset(b);
    }
}

/* Keeps the buffers, forgets all else. */
static void reset(struct call *c) {
    struct buf *const bufs[] = {
        &c->head,         &c->fields,         &c->reason,       &c->out,
        &c->reply_head,   &c->held,           &c->answer,       &c->raw,
        &c->plain,        &c->model,          &c->rewrite.text, &c->rec.head,
        &c->rec.response, &c->rewrite.values, &c->redact.carry, &c->redact.out,
        &c->splices};
    for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++) {
        clear(bufs[i]);
    }
    capture_reset(&c->capture);
    sse_reset(&c->sse);
    decode_free(c->decode);
    struct call kept = {
        .rewrite = {.splice = c->rewrite.splice,
                    .text = c->rewrite.text,
                    .values = c->rewrite.values},
        .plain = c->plain,
        .model = c->model,
        .splices = c->splices,
        .head = c->head,
        .fields = c->fields,
        .reason = c->reason,
        .sse = c->sse,
        .chunk = c->chunk,
        .splice = c->splice,
        .capture = c->capture,
        .out = c->out,
        .reply_head = c->reply_head,
        .held = c->held,
        .answer = c->answer,
        .raw = c->raw,
        .redact = {.carry = c->redact.carry, .out = c->redact.out},
        .rec = c->rec,
    };
    *c = kept;
}

void call_free_spare(struct worker *w) {
    while (w->spare_calls) {
        struct call *c = w->spare_calls;
        w->spare_calls = c->next;
        struct buf *const bufs[] = {&c->head,       &c->fields, &c->reason,       &c->out,
                                    &c->reply_head, &c->held,   &c->answer,       &c->raw,
                                    &c->plain,      &c->model,  &c->redact.carry, &c->redact.out,
                                    &c->splices};
        for (size_t i = 0; i < sizeof bufs / sizeof bufs[0]; i++) {
            buf_deinit(bufs[i]);
        }
        rewrite_deinit(&c->rewrite);
        sse_deinit(&c->sse);
        chunk_deinit(&c->chunk);
        splice_deinit(&c->splice);
        capture_deinit(&c->capture);
        record_deinit(&c->rec);
        free(c);
    }
    w->n_spare_calls = 0;
}

void call_release(struct call *c) {
    struct gateway_session *s = c->session;
    struct worker *w = c->worker;
    struct session_use use = c->use;
    if (c->prev) {
        c->prev->next = c->next;
    } else {
        w->calls = c->next;
    }
    if (c->next) {
        c->next->prev = c->prev;
    }
    reset(c);
    put_spare(w, c);
    if (w->n_spare_calls > CALL_SPARE_MAX) {
        w->spare_calls = c->next;
        w->n_spare_calls--;
        struct worker one = {.spare_calls = c};
        c->next = NULL;
        call_free_spare(&one);
    }
    w->gateway->calls_open--;
    session_leave(s, &use);
}

void call_go(struct call *c) {
    const struct gateway_session *s = c->session;
    struct err e = {0};
    const struct rewrite_options o = {
        .profile = c->profile,
        .level = c->level,
        .withdrawn = c->withdrawn,
        .top_logprobs = s->top_logprobs,
        .max_tokens_cap = s->max_tokens_cap,
        .disable_thinking = s->disable_thinking,
        .neutral_sampling = s->neutral_sampling,
        .model_override = c->use.target->model_override,
    };
    if (c->edits && rewrite_request(&c->rewrite, &c->request, &o, &e) < 0) {
        call_fail(c, END_ERROR, &e);
    } else if (c->record) {
        call_write_intent(c);
    } else {
        call_ask(c);
    }
}

/* Gives what the agent's body says. 1: it can be read; 0: its coding is not known here or broken,
 * so that the engine shall see it as it is. ERR_LIMIT, ERR_NOMEM. */
static int decode_body(struct exchange *x, struct buf *plain, struct sv *text, struct err *err) {
    struct decode *d;
    *text = exchange_body(x);
    int rc = decode_new(exchange_head(x), DECODE_REQUEST_MAX, &d, err);
    if (rc == 0) {
        return 1;
    }
    if (rc > 0) {
        rc = decode_whole(d, *text, plain, err);
        decode_free(d);
    }
    if (rc == 0) {
        *text = buf_sv(plain);
        return 1;
    }
    return rc == ERR_LIMIT || rc == ERR_NOMEM ? rc : 0;
}

static bool is_refused(struct worker *w, struct exchange *x) {
    struct err e = {0};
    const struct gateway *g = w->gateway;
    if (g->calls_open < g->calls_max) {
        return false;
    }
    err_set(&e, ERR_QUOTA, "%llu calls are open, which is the limit of this gateway",
            (unsigned long long)g->calls_max);
    w->stats.refused++;
    exchange_reply_err(x, &e);
    return true;
}

/* The request's spans stay where they are: the buffer only changes hands. */
static void keep_text(struct call *c, const struct request *request, struct buf *plain) {
    c->request = *request;
    c->agent_text = request->text;
    if (plain->len > 0) {
        buf_deinit(&c->plain);
        c->plain = *plain;
        *plain = (struct buf){0};
    }
}

/* What the request says, or false: it was answered with an error. */
static bool read_request(struct gateway_session *s, struct exchange *x, struct request *request,
                         struct buf *plain, bool *readable, struct breaker_key *key) {
    static const struct sv invalid = {"{\"error\":\"invalid json body\"}", 29};
    struct err e = {0};
    int rc = decode_body(x, plain, &request->text, &e);
    *readable = rc > 0;
    if (rc > 0 && request_parse(request, request->text, NULL) < 0) {
        exchange_reply(x, 400, SV("application/json"), invalid);
        return false;
    }
    if (rc >= 0 && session_is_broken(s, request->text, key)) {
        rc = err_set(&e, ERR_INPUT,
                     "the same request failed again and again, so it was not sent on: "
                     "change it, or wait");
    }
    if (rc < 0) {
        exchange_reply_err(x, &e);
    }
    return rc >= 0;
}

static void begin(struct call *c, bool readable) {
    struct gateway_session *s = c->session;
    const struct request *request = &c->request;
    c->number = session_next_call(s);
    c->worker->stats.calls++;
    c->record = s->record;
    c->edits = s->edits && readable;
    c->n_choices = request_n(request);
    c->rewrite.model = request->fields[REQUEST_MODEL].value;
    call_plan_ask(c);
    call_go(c);
}

void call_begin(struct worker *w, struct gateway_session *s, struct exchange *x) {
    AUTO_BUF struct buf plain = {0};
    struct request request = {0};
    struct breaker_key key;
    bool readable;
    if (is_refused(w, x)) {
        return;
    }
    if (!read_request(s, x, &request, &plain, &readable, &key)) {
        w->stats.refused++;
        return;
    }
    struct call *c = new_call(w, s, x);
    if (c) {
        keep_text(c, &request, &plain);
        c->body_key = key;
        begin(c, readable);
    }
}

void call_begin_models(struct worker *w, struct gateway_session *s, struct exchange *x) {
    struct call *c = is_refused(w, x) ? NULL : new_call(w, s, x);
    if (!c) {
        return;
    }
    c->is_models = true;
    c->agent_body = (struct sv){0};
    call_ask(c);
}
