/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/server.h"

#include <stdlib.h>

#include "base/json.h"
#include "net/server_internal.h"

/* Pipelined bytes held while a request is answered; then the client is not read until it is. */
#define EARLY_MAX (64u * 1024)

static void client_process(struct client *c, struct sv in);

/* --- a client's life --- */

void client_release(struct client *c) {
    if (c->gone) {
        return;
    }
    c->gone = true;
    c->conn = NULL;
    timer_free(c->timer);
    c->timer = NULL;
    struct server *s = c->server;
    *(c->prev ? &c->prev->next : &s->clients) = c->next;
    *(c->next ? &c->next->prev : &s->oldest) = c->prev;
    s->n_clients--;
    s->held -= c->held;
    http1_head_parser_deinit(&c->parser);
    buf_deinit(&c->early);
    if (!c->processing) {
        free(c);
    }
}

static void cut(struct client *c) {
    struct exchange *x = c->exchange;
    bool handler_has_it = c->state == CLIENT_ANSWER;
    conn_abort(c->conn);
    client_release(c);
    if (x && handler_has_it) {
        exchange_lose_client(x);
    } else if (x) {
        exchange_free(x);
    }
}

static int write_refusal(struct client *c, int status, const char *why) {
    AUTO_BUF struct buf body = {0};
    AUTO_BUF struct buf out = {0};
    int r = buf_adds(&body, "{\"error\":{\"message\":");
    r = r < 0 ? r : json_quote(sv_from(why), &body);
    r = r < 0 ? r : buf_adds(&body, ",\"type\":\"invalid_request_error\",\"code\":null}}");
    r = r < 0 ? r : http1_put_status(&out, status, (struct sv){0}, NULL);
    r = r < 0 ? r : buf_adds(&out, "Content-Type: application/json\r\nConnection: close\r\n");
    r = r < 0 ? r : http1_put_framing(&out, HTTP1_LENGTH, body.len, NULL);
    r = r < 0 ? r : http1_put_end(&out, NULL);
    r = r < 0 ? r : buf_add_sv(&out, buf_sv(&body));
    return r < 0 ? r : conn_write(c->conn, buf_sv(&out));
}

/* Answers a request that can't be read further, and ends the connection. */
static void refuse(struct client *c, int status, const char *why) {
    if (write_refusal(c, status, why) < 0) {
        cut(c);
        return;
    }
    conn_finish(c->conn);
    exchange_free(c->exchange);
    client_release(c);
}

static void take_stock(struct client *c) {
    size_t now = c->parser.carry.len + c->early.len + (c->exchange ? c->exchange->body.len : 0);
    c->server->held += now - c->held;
    c->held = now;
}

/* More of a request was read: is there room for it? */
static void check_room(struct client *c) {
    take_stock(c);
    if (c->server->held > c->server->options.held_max) {
        refuse(c, 503, "too many bytes of requests are held here: try again");
    }
}

static void set_state(struct client *c, enum client_state state) {
    const struct server_options *o = &c->server->options;
    c->state = state;
    if (state == CLIENT_ANSWER) {
        timer_stop(c->timer);
    } else {
        int64_t idle_ms = c->server->draining ? SERVER_DRAIN_MS : o->idle_ms;
        timer_start(c->timer, state == CLIENT_IDLE   ? idle_ms
                              : state == CLIENT_HEAD ? o->head_ms
                                                     : o->body_ms);
    }
}

#define TOO_LATE "the request did not come in time"

static bool goes_silently(const struct client *c) {
    return c->state == CLIENT_IDLE && !c->server->options.tells_idle;
}

static void on_time(void *arg) {
    struct client *c = arg;
    if (goes_silently(c)) {
        conn_finish(c->conn);
        client_release(c);
    } else {
        refuse(c, 408, TOO_LATE);
    }
}

/* --- reading requests --- */

static int start_exchange(struct client *c, const struct http1_head *head) {
    struct exchange *x = calloc(1, sizeof *x);
    if (!x || buf_add_sv(&x->raw, head->raw) < 0) {
        exchange_free(x);
        return ERR_NOMEM;
    }
    x->loop = c->server->loop;
    x->client = c;
    x->head = *head;
    http1_head_rebase(&x->head, x->raw.data);
    x->body.limit = c->server->options.body_max;
    x->keep = http1_keep_alive(head) && !c->server->draining;
    c->exchange = x;
    http1_body_of_request(&c->body, head);
    return 0;
}

/* `awaited`: no byte of the body has come with the head. */
static void begin_body(struct client *c, bool awaited) {
    const struct server_options *o = &c->server->options;
    struct exchange *x = c->exchange;
    bool has_body = x->head.chunked || x->head.content_length > 0;
    size_t most = has_body && o->body_max_of ? o->body_max_of(x, o->arg) : o->body_max;
    if (has_body && most == 0) {
        x->keep = false;
        set_state(c, CLIENT_ANSWER);
        o->on_request(x, o->arg);
        return;
    }
    if (x->head.has_length && x->head.content_length > most) {
        refuse(c, 413, "the request body is too long");
        return;
    }
    x->body.limit = most < x->body.limit ? most : x->body.limit;
    set_state(c, CLIENT_BODY);
    if (awaited && x->head.expect_continue && !o->never_continues &&
        conn_write(c->conn, SV("HTTP/1.1 100 Continue\r\n\r\n")) < 0) {
        cut(c);
    }
}

static size_t read_head(struct client *c, struct sv in) {
    struct http1_head head;
    struct err err = {0};
    size_t used = 0;
    if (c->state == CLIENT_IDLE) {
        set_state(c, CLIENT_HEAD);
    }
    int r = http1_head_feed(&c->parser, in, &used, &head, &err);
    if (r < 0) {
        refuse(c, c->parser.refuse_status, err.msg);
        return 0;
    }
    if (r == 0) {
        check_room(c);
        return used;
    }
    size_t body_max = c->server->options.body_max;
    if (head.has_length && head.content_length > body_max) {
        refuse(c, 413, "the request body is too long");
    } else if (start_exchange(c, &head) < 0) {
        cut(c);
    } else {
        begin_body(c, used == in.n);
    }
    return used;
}

static size_t read_body(struct client *c, struct sv in, bool *more) {
    struct err err = {0};
    size_t used = 0;
    struct sv span;
    int r = http1_body_next(&c->body, in, &used, &span, &err);
    *more = r == HTTP1_DATA;
    if (r == HTTP1_DATA) {
        int added = buf_add_sv(&c->exchange->body, span);
        if (added < 0) {
            refuse(c, err_http_status(added), "the request body is too long");
        } else {
            check_room(c);
        }
    } else if (r == HTTP1_END) {
        set_state(c, CLIENT_ANSWER);
        c->behind = sv_cut(in, used);
        c->server->options.on_request(c->exchange, c->server->options.arg);
        c->behind = (struct sv){0};
        *more = true;
    } else if (r < 0) {
        refuse(c, err_http_status(r) == 502 ? 400 : err_http_status(r), err.msg);
    } else {
        timer_start(c->timer, c->server->options.body_ms);
    }
    return used;
}

static void hold_early(struct client *c, struct sv in) {
    if (buf_add_sv(&c->early, in) < 0) {
        cut(c);
    } else {
        if (c->early.len > EARLY_MAX) {
            conn_read_pause(c->conn);
        }
        take_stock(c);
    }
}

/* Goes through `in`, request after request, as long as each is answered at once. */
static void client_process(struct client *c, struct sv in) {
    bool more = true;
    c->processing = true;
    while (!c->gone && c->state != CLIENT_ANSWER &&
           (in.n > 0 || (c->state == CLIENT_BODY && more))) {
        size_t used = c->state == CLIENT_BODY ? read_body(c, in, &more) : read_head(c, in);
        in = sv_cut(in, used);
        more = more || in.n > 0;
    }
    if (!c->gone && in.n > 0) {
        hold_early(c, in);
    }
    c->processing = false;
    if (c->gone) {
        free(c);
    }
}

static void process_early(struct client *c) {
    struct buf early = c->early;
    c->early = (struct buf){0};
    take_stock(c);
    conn_read_resume(c->conn);
    client_process(c, buf_sv(&early));
    buf_deinit(&early);
}

void client_next(struct client *c, bool keep) {
    c->exchange = NULL;
    if (!keep) {
        conn_finish(c->conn);
        client_release(c);
        return;
    }
    set_state(c, CLIENT_IDLE);
    take_stock(c);
    if (!c->processing && c->early.len > 0) {
        process_early(c);
    }
}

/* --- the connection's events --- */

static void on_read(struct conn *conn, struct sv bytes, void *arg) {
    struct client *c = arg;
    (void)conn;
    if (c->state == CLIENT_ANSWER) {
        hold_early(c, bytes);
    } else {
        client_process(c, bytes);
    }
}

static void on_end(struct client *c) {
    if (c->state == CLIENT_IDLE) {
        conn_finish(c->conn);
        client_release(c);
    } else {
        cut(c);
    }
}

static void on_eof(struct conn *conn, bool truncated, void *arg) {
    (void)conn;
    (void)truncated;
    on_end(arg);
}

static void on_hangup(struct conn *conn, void *arg) {
    (void)conn;
    on_end(arg);
}

static void on_gone(struct conn *conn, const struct err *err, void *arg) {
    (void)conn;
    (void)err;
    cut(arg);
}

static void on_drain(struct conn *conn, void *arg) {
    struct client *c = arg;
    (void)conn;
    struct exchange *x = c->state == CLIENT_ANSWER ? c->exchange : NULL;
    if (x && x->drain_fn) {
        x->drain_fn(x, x->drain_arg);
    }
}

static const struct conn_events events = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_hangup = on_hangup,
    .on_gone = on_gone,
    .on_drain = on_drain,
};

/* Whoever holds connections open without asking anything must not keep others out. Who is
 * waited for at his end would keep his descriptor, and so make no room. */
static bool make_room(struct server *s) {
    struct client *c = s->oldest;
    if (s->n_clients < s->options.clients_max) {
        return true;
    }
    while (c && c->state != CLIENT_IDLE && c->state != CLIENT_HEAD) {
        c = c->prev;
    }
    if (!c) {
        return false;
    }
    if (!goes_silently(c)) {
        (void)write_refusal(c, 408, TOO_LATE); /* As good as it goes. */
    }
    conn_drop(c->conn);
    client_release(c);
    return true;
}

static void link_client(struct server *s, struct client *c) {
    c->next = s->clients;
    *(c->next ? &c->next->prev : &s->oldest) = c;
    s->clients = c;
    s->n_clients++;
}

static void on_accept(struct conn *conn, void *arg) {
    struct server *s = arg;
    bool fits = make_room(s);
    struct client *c = calloc(1, sizeof *c);
    if (!c || timer_new(s->loop, on_time, c, &c->timer, NULL) < 0) {
        free(c);
        conn_abort(conn);
        return;
    }
    c->server = s;
    c->conn = conn;
    c->parser.kind = HTTP1_REQUEST;
    link_client(s, c);
    if (!fits) {
        refuse(c, 503, "too many connections are open here: try again");
        return;
    }
    set_state(c, CLIENT_IDLE);
    conn_set_events(conn, &events, c);
    conn_read_resume(conn);
}

/* --- the server's life --- */

int server_new(struct loop *l, const struct server_options *o, struct server **out,
               struct err *err) {
    struct server *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(err, ERR_NOMEM, "no memory for a server");
    }
    s->loop = l;
    s->options = *o;
    s->options.host = s->options.unix_path = NULL; /* Borrowed only until it listens. */
    s->options.body_max = o->body_max ? o->body_max : SERVER_BODY_MAX;
    s->options.head_ms = o->head_ms ? o->head_ms : SERVER_HEAD_MS;
    s->options.body_ms = o->body_ms ? o->body_ms : SERVER_BODY_MS;
    s->options.idle_ms = o->idle_ms ? o->idle_ms : SERVER_IDLE_MS;
    s->options.clients_max = o->clients_max ? o->clients_max : SERVER_CLIENTS_MAX;
    s->options.held_max = o->held_max ? o->held_max : SERVER_HELD_MAX;
    struct listener_options lo = {
        .host = o->host,
        .port = o->port,
        .shares_port = o->shares_port,
        .unix_path = o->unix_path,
        .unix_mode = o->unix_mode,
        .on_accept = on_accept,
        .arg = s,
    };
    int r = listener_new(l, &lo, &s->listener, err);
    if (r < 0) {
        free(s);
        return r;
    }
    *out = s;
    return 0;
}

uint16_t server_port(const struct server *s) {
    return listener_port(s->listener);
}

void server_drain(struct server *s) {
    s->draining = true;
    listener_drain(s->listener);
    for (struct client *c = s->clients; c; c = c->next) {
        if (c->state == CLIENT_IDLE) {
            set_state(c, CLIENT_IDLE);
        } else if (c->exchange && c->exchange->mode == ANSWER_NONE) {
            c->exchange->keep = false; /* Its head can still say so. */
        }
    }
}

unsigned server_clients(const struct server *s) {
    return s->n_clients;
}

static void stop(void *arg) {
    struct server *s = arg;
    listener_free(s->listener);
    while (s->clients) {
        cut(s->clients);
    }
    free(s);
}

void server_free(struct server *s) {
    if (s) {
        loop_call(s->loop, stop, s);
    }
}
