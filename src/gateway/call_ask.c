/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine's side of a call: the request's head, and what is made of the answer's. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gateway/call.h"

static int put_head(struct call *c, struct sv body, struct err *err) {
    /* The key is ours, the agent's is a session's token; an answer must come plain to be read.
     * Expect was answered here. */
    static const char *const drop[] = {
        "Host",   "Authorization",   "X-Api-Key",        "X-Goog-Api-Key",
        "Expect", "Accept-Encoding", "Content-Encoding", NULL};
    static const char *const drop_encoded[] = {
        "Host", "Authorization", "X-Api-Key", "X-Goog-Api-Key", "Expect", "Accept-Encoding", NULL};
    const struct endpoint *place = c->use.endpoint;
    const char *key = c->use.target->api_key;
    struct buf *out = &c->head;
    buf_reset(out);
    const char *target = c->is_models ? place->models_target : place->chat_target;
    int rc = http1_put_request(out, c->is_models ? SV("GET") : SV("POST"), sv_from(target), err);
    rc = rc < 0 ? rc : http1_put_field(out, SV("Host"), sv_from(place->host_field), err);
    rc = rc < 0 ? rc
                : http1_put_end_to_end(out, exchange_head(c->x),
                                       c->rewrite.n_edits > 0 ? drop : drop_encoded, err);
    rc = rc < 0 ? rc : http1_put_field(out, SV("Accept-Encoding"), SV("identity"), err);
    if (rc == 0 && key) {
        AUTO_BUF struct buf value = {0};
        rc = buf_addf(&value, "Bearer %s", key);
        rc = rc < 0 ? rc : http1_put_field(out, SV("Authorization"), buf_sv(&value), err);
        if (value.data) {
            explicit_bzero(value.data, value.len);
        }
    }
    if (rc == 0 && !c->is_models) {
        rc = http1_put_framing(out, HTTP1_LENGTH, body.n, err);
    }
    return rc < 0 ? rc : http1_put_end(out, err);
}

void call_ask(struct call *c) {
    const struct gateway_session *s = c->session;
    const struct endpoint *place = c->use.endpoint;
    struct err e = {0};
    struct sv body = c->rewrite.n_edits > 0 ? buf_sv(&c->rewrite.text) : c->agent_body;
    int rc = put_head(c, body, &e);
    if (rc == 0) {
        const struct upstream_options o = {
            .host = place->host,
            .port = place->port,
            .tls = place->tls,
            .is_strangers = s->is_strangers,
            .head = buf_sv(&c->head),
            .body = body,
            .connect_timeout_ms = s->connect_timeout_ms,
            .header_timeout_ms = s->header_timeout_ms,
            .events = &call_upstream_events,
            .arg = c,
        };
        c->sent_us = clock_us();
        rc = upstream_start(c->worker->pool, &o, &c->up, &e);
    }
    if (rc < 0) {
        call_fail(c, END_ERROR, &e);
    }
}

static bool has_type(const struct http1_head *head, struct sv want) {
    struct sv type = http1_get(head, SV("Content-Type"));
    return type.n >= want.n && sv_eq_nocase((struct sv){type.p, want.n}, want);
}

static enum call_mode mode_for(const struct call *c, const struct http1_head *head) {
    if (c->is_models) {
        return MODE_WHOLE;
    }
    if (call_may_be_refused(c)) {
        return MODE_PROBE;
    }
    if (c->status >= 400 || c->is_unreadable) {
        return MODE_PASS;
    }
    if (has_type(head, SV("text/event-stream"))) {
        return MODE_STREAM;
    }
    return c->restores ? MODE_WHOLE : MODE_PASS;
}

static int take_head(struct call *c, const struct http1_head *head, struct err *err) {
    static const char *const drop[] = {"Content-Encoding", NULL};
    c->status = head->status;
    call_learn_from_head(c, head);
    c->restores = restore_is_needed(&c->plan);
    c->has_length = head->has_length;
    c->length = head->content_length;
    c->is_json = has_type(head, SV("application/json"));
    c->until_close = !head->has_length && !head->chunked;
    call_decode_begin(c, head);
    c->mode = mode_for(c, head);
    buf_reset(&c->reason);
    buf_reset(&c->fields);
    int rc = buf_add_sv(&c->reason, head->reason);
    rc = rc < 0
             ? rc
             : http1_put_end_to_end(&c->fields, head, c->decode && !c->copies ? drop : NULL, err);
    redact_text(c->redact.key, c->reason.data, c->reason.len);
    redact_text(c->redact.key, c->fields.data, c->fields.len);
    return rc;
}

/* Streams are open for long, thousands at once, and little is asked of their requests any more: the
 * model, and which fields were there. */
static void drop_request(struct call *c) {
    struct sv model = c->rewrite.model;
    if (buf_add_sv(&c->model, model) < 0) {
        return;
    }
    c->rewrite.model = buf_sv(&c->model);
    c->agent_body = c->agent_text = c->request.text = (struct sv){0};
    buf_deinit(&c->rewrite.text);
    buf_deinit(&c->rewrite.values);
    buf_deinit(&c->plain);
    if (c->x) {
        exchange_drop_body(c->x);
    }
}

static void on_head(void *arg, const struct http1_head *head) {
    struct call *c = arg;
    struct err e = {0};
    endpoint_note(c->use.endpoint, /* connected= */ true);
    if (take_head(c, head, &e) < 0) {
        upstream_cancel(c->up);
        c->up = NULL;
        call_fail(c, END_ERROR, &e);
        return;
    }
    call_learn_from_success(c);
    if (c->mode == MODE_STREAM) {
        drop_request(c);
    }
    if (c->mode == MODE_PASS) {
        reply_start(c, c->has_length, c->length);
    } else if (c->mode == MODE_STREAM) {
        reply_start(c, c->has_length && !c->restores, c->length);
    }
}

static int keep_raw(struct call *c, struct sv payload) {
    if (!c->worker->gateway->keep_raw || !c->record || c->written == WRITTEN_WHOLE ||
        c->raw.len + payload.n > CALL_ANSWER_MAX) {
        return 0;
    }
    return buf_add_sv(&c->raw, payload);
}

static int take_shown(struct call *c, struct sv shown, struct err *err) {
    if (keep_raw(c, shown) < 0) {
        c->answer_too_big = true; /* Kept for looking at; the call does not hang on it. */
    }
    if (c->mode != MODE_STREAM) {
        return call_whole_body(c, shown, err);
    }
    if (c->record || c->restores) {
        return call_stream_body(c, shown, err);
    }
    return buf_add_sv(&c->out, shown) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int call_take_plain(struct call *c, struct sv plain, struct err *err) {
    struct sv shown;
    if (redact_feed(&c->redact, plain, &shown) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return shown.n > 0 ? take_shown(c, shown, err) : 0;
}

static void on_body(void *arg, struct sv payload) {
    struct call *c = arg;
    struct err e = {0};
    reply_take_room(c);
    int rc = c->decode ? call_decode_body(c, payload, &e) : call_take_plain(c, payload, &e);
    if (rc < 0) {
        upstream_cancel(c->up);
        c->up = NULL;
        call_fail(c, END_UPSTREAM_ABORT, &e);
    }
}

/* What might have become the key, and did not. */
static int take_rest(struct call *c, struct err *err) {
    struct sv rest = redact_end(&c->redact);
    return rest.n > 0 ? take_shown(c, rest, err) : 0;
}

static void on_flush(void *arg, bool is_end) {
    struct call *c = arg;
    reply_flush(c);
    if (c->is_holding && c->up && c->held.len > CONN_QUEUE_HIGH) {
        upstream_pause(c->up); /* A second at most; send_held lets it go on. */
    }
    if ((c->is_ending || c->hold_over) && !is_end) { /* Else all is known in a moment. */
        call_advance(c);
    }
}

/* A body whose framing has no end of its own, and that stopped in the middle. */
static bool is_cut_off(const struct call *c) {
    if (!c->until_close || c->is_unreadable || !(c->record || c->restores)) {
        return false;
    }
    return c->mode == MODE_STREAM ? !c->saw_done && c->capture.n_finished < c->n_choices
                                  : c->is_json && c->capture.n_bad_events > 0;
}

static void on_end(void *arg) {
    struct call *c = arg;
    c->up = NULL;
    struct err e = {0};
    int rc = c->decode ? call_decode_end(c, &e) : 0;
    rc = rc < 0 ? rc : take_rest(c, &e);
    if (rc == 0 && call_asks_again(c)) {
        call_go(c);
        return;
    }
    if (rc == 0) {
        rc = c->mode == MODE_STREAM ? call_stream_end(c) : call_whole_end(c);
        rc = rc < 0 ? err_set(&e, rc, "cannot read the engine's answer: %s", err_name(rc)) : 0;
    }
    if (rc < 0) {
        call_fail(c, END_UPSTREAM_ABORT, &e);
    } else if (is_cut_off(c)) {
        err_set(&e, ERR_CLOSED, "the engine's answer broke off");
        call_fail(c, END_UPSTREAM_ABORT, &e);
    } else {
        c->upstream_over = true;
        c->is_ending = true;
        call_advance(c);
    }
}

/* Nothing was sent where the connection was refused: another engine of the model may take it. */
static bool moves_on(struct call *c, const struct err *err) {
    if (err->code != ERR_CONNECT || c->mode != MODE_NONE) {
        return false;
    }
    endpoint_note(c->use.endpoint, /* connected= */ false);
    if (!c->x || c->is_ending || !session_switch(c->session, &c->use)) {
        return false;
    }
    c->worker->stats.moved++;
    return true;
}

static void on_fail(void *arg, const struct err *err) {
    struct call *c = arg;
    c->up = NULL;
    if (moves_on(c, err)) {
        if (c->is_models) {
            call_ask(c);
        } else {
            call_go(c);
        }
        return;
    }
    struct err e = {0};
    if (take_rest(c, &e) < 0) {
        err = &e;
    }
    call_fail(c, c->mode == MODE_NONE ? END_ERROR : END_UPSTREAM_ABORT, err);
}

const struct upstream_events call_upstream_events = {
    .on_head = on_head,
    .on_body = on_body,
    .on_flush = on_flush,
    .on_end = on_end,
    .on_fail = on_fail,
};
