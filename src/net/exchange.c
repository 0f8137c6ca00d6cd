/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "net/server_internal.h"

/* --- the request --- */

const struct http1_head *exchange_head(const struct exchange *x) {
    return &x->head;
}

static struct sv split_target(const struct exchange *x, bool want_query) {
    struct sv target = http1_target_path(&x->head);
    const char *mark = target.n ? memchr(target.p, '?', target.n) : NULL;
    size_t n = mark ? (size_t)(mark - target.p) : target.n;
    return want_query ? sv_cut(target, n + 1) : (struct sv){target.p, n};
}

struct sv exchange_path(const struct exchange *x) {
    return split_target(x, false);
}

struct sv exchange_query(const struct exchange *x) {
    return split_target(x, true);
}

struct sv exchange_body(const struct exchange *x) {
    return buf_sv(&x->body);
}

void exchange_drop_body(struct exchange *x) {
    buf_deinit(&x->body);
}

bool exchange_keeps(const struct exchange *x) {
    return x->keep;
}

struct loop *exchange_loop(const struct exchange *x) {
    return x->loop;
}

void exchange_peer(const struct exchange *x, char out[CONN_PEER_MAX]) {
    if (x->client && x->client->conn) {
        conn_peer(x->client->conn, out);
    } else {
        snprintf(out, CONN_PEER_MAX, "gone");
    }
}

/* --- its end --- */

void exchange_free(struct exchange *x) {
    if (x) {
        timer_free(x->timer);
        buf_deinit(&x->raw);
        buf_deinit(&x->body);
        free(x);
    }
}

void exchange_lose_client(struct exchange *x) {
    x->client = NULL;
    if (x->gone_fn) {
        x->gone_fn(x, x->gone_arg);
    }
}

static void finish(struct exchange *x, bool keep) {
    struct client *c = x->client;
    exchange_free(x);
    if (c) {
        client_next(c, keep);
    }
}

static void cut_conn(struct exchange *x, enum exchange_cut how) {
    struct client *c = x->client;
    exchange_free(x);
    if (!c) {
        return;
    }
    c->exchange = NULL;
    if (how == EXCHANGE_CUT_RESET) {
        conn_finish_reset(c->conn);
    } else {
        conn_finish(c->conn);
    }
    client_release(c);
}

void exchange_cut(struct exchange *x, enum exchange_cut how) {
    cut_conn(x, how);
}

/* --- the answer --- */

static int put_head(struct exchange *x, int status, const struct server_field *fields, size_t n,
                    uint64_t length, struct buf *out) {
    int r = http1_put_status(out, status, (struct sv){0}, NULL);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = http1_put_field(out, fields[i].name, fields[i].value, NULL);
    }
    if (r == 0 && status != 204 && status != 304 && status >= 200) {
        r = http1_put_framing(out, x->framing, length, NULL);
    }
    if (r == 0 && !x->keep && x->framing != HTTP1_UNTIL_CLOSE) {
        r = buf_adds(out, "Connection: close\r\n");
    } else if (r == 0 && x->keep && x->head.minor == 0) {
        r = buf_adds(out, "Connection: keep-alive\r\n");
    }
    return r < 0 ? r : http1_put_end(out, NULL);
}

int exchange_start(struct exchange *x, int status, const struct server_field *fields, size_t n,
                   enum http1_framing framing, uint64_t length) {
    AUTO_BUF struct buf out = {0};
    BUG_IF(x->mode != ANSWER_NONE);
    if (framing == HTTP1_CHUNKED && x->head.minor == 0) {
        framing = HTTP1_UNTIL_CLOSE; /* An HTTP/1.0 client knows no chunks. */
    }
    x->mode = ANSWER_BODY;
    x->framing = framing;
    x->left = framing == HTTP1_LENGTH ? length : 0;
    x->no_payload = sv_eq(x->head.method, SV("HEAD")) || status == 204 || status == 304;
    x->keep = x->keep && framing != HTTP1_UNTIL_CLOSE;
    int r = put_head(x, status, fields, n, length, &out);
    x->broken = r < 0;
    if (r < 0 || !x->client) {
        return r < 0 ? r : ERR_CLOSED;
    }
    return conn_write(x->client->conn, buf_sv(&out));
}

int exchange_send(struct exchange *x, struct sv payload) {
    BUG_IF(x->mode != ANSWER_BODY);
    if (!x->client || x->broken) {
        return ERR_CLOSED;
    }
    if (payload.n == 0 || x->no_payload) {
        return 0; /* An empty chunk would be the last. */
    }
    if (x->framing == HTTP1_CHUNKED) {
        char line[HTTP1_CHUNK_HEAD_MAX];
        struct sv parts[] = {http1_chunk_head(line, payload.n), payload, HTTP1_CHUNK_TAIL};
        return conn_writev(x->client->conn, parts, 3);
    }
    if (x->framing == HTTP1_LENGTH) {
        BUG_IF(payload.n > x->left);
        x->left -= payload.n;
    }
    return conn_write(x->client->conn, payload);
}

int exchange_send_rawv(struct exchange *x, const struct sv *parts, size_t n) {
    if (x->mode == ANSWER_NONE) {
        x->mode = ANSWER_RAW;
    }
    int rc = x->client ? conn_writev(x->client->conn, parts, n) : ERR_CLOSED;
    x->broken = x->broken || rc < 0; /* Without these bytes there is no end. */
    return rc;
}

int exchange_send_raw(struct exchange *x, struct sv raw) {
    return exchange_send_rawv(x, &raw, 1);
}

void exchange_end(struct exchange *x) {
    bool keep = x->keep;
    bool sends_payload = x->mode == ANSWER_BODY && !x->no_payload;
    BUG_IF(x->mode == ANSWER_NONE);
    if (x->broken) {
        cut_conn(x, EXCHANGE_CUT_RESET);
        return;
    }
    if (sends_payload && x->framing == HTTP1_CHUNKED && x->client) {
        keep = conn_write(x->client->conn, HTTP1_LAST_CHUNK) == 0 && keep;
    }
    if (sends_payload && x->framing == HTTP1_LENGTH && x->left > 0) {
        cut_conn(x, EXCHANGE_CUT_RESET); /* Fewer bytes than promised: no clean end. */
        return;
    }
    finish(x, keep);
}

void exchange_reply(struct exchange *x, int status, struct sv content_type, struct sv body) {
    AUTO_BUF struct buf out = {0};
    struct server_field type = {SV("Content-Type"), content_type};
    BUG_IF(x->mode != ANSWER_NONE);
    x->mode = ANSWER_BODY;
    x->framing = HTTP1_LENGTH;
    int r = put_head(x, status, &type, content_type.n ? 1 : 0, body.n, &out);
    bool no_payload = sv_eq(x->head.method, SV("HEAD")) || status == 204 || status == 304;
    if (r == 0 && x->client) {
        struct sv parts[] = {buf_sv(&out), body};
        r = conn_writev(x->client->conn, parts, no_payload ? 1 : 2);
    }
    if (r < 0) {
        cut_conn(x, EXCHANGE_CUT_RESET);
    } else {
        finish(x, x->keep);
    }
}

void exchange_reply_err(struct exchange *x, const struct err *err) {
    exchange_reply_err_as(x, err_http_status(err->code), err);
}

void exchange_reply_err_as(struct exchange *x, int status, const struct err *err) {
    AUTO_BUF struct buf body = {0};
    int r = buf_adds(&body, "{\"error\":{\"message\":");
    r = r < 0 ? r : json_quote(sv_from(err->msg), &body);
    r = r < 0 ? r
              : buf_addf(&body, ",\"type\":\"%s\",\"code\":\"%s\"}}",
                         status < 500 ? "invalid_request_error" : "server_error",
                         err_name(err->code));
    if (r < 0) {
        cut_conn(x, EXCHANGE_CUT_RESET);
    } else {
        exchange_reply(x, status, SV("application/json"), buf_sv(&body));
    }
}

int exchange_take(struct exchange *x, struct conn **out, struct buf *early, struct err *err) {
    struct client *c = x->client;
    exchange_free(x);
    if (!c) {
        return err_set(err, ERR_CLOSED, "the client has left");
    }
    c->exchange = NULL;
    if (buf_add_sv(early, buf_sv(&c->early)) < 0 || buf_add_sv(early, c->behind) < 0) {
        conn_abort(c->conn);
        client_release(c);
        return err_set(err, ERR_NOMEM, "no memory for a connection");
    }
    *out = c->conn;
    conn_read_pause(c->conn); /* Until its new owner has set its events. */
    client_release(c);
    return 0;
}

/* --- later --- */

static void on_time(void *arg) {
    struct exchange *x = arg;
    x->after_fn(x, x->after_arg);
}

int exchange_after(struct exchange *x, int64_t ms, void (*fn)(struct exchange *x, void *arg),
                   void *arg) {
    x->after_fn = fn;
    x->after_arg = arg;
    int rc = x->timer ? 0 : timer_new(x->loop, on_time, x, &x->timer, NULL);
    if (rc == 0) {
        timer_start(x->timer, ms);
    }
    return rc;
}

void exchange_on_gone(struct exchange *x, void (*fn)(struct exchange *x, void *arg), void *arg) {
    x->gone_fn = fn;
    x->gone_arg = arg;
}

void exchange_on_drain(struct exchange *x, void (*fn)(struct exchange *x, void *arg), void *arg) {
    x->drain_fn = fn;
    x->drain_arg = arg;
}

bool exchange_is_gone(const struct exchange *x) {
    return !x->client;
}

bool exchange_is_full(const struct exchange *x) {
    return x->client && conn_is_full(x->client->conn);
}
