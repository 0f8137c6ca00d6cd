/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/upstream.h"

#include <stdlib.h>

#include "gateway/upstream_pool.h"
#include "net/dial.h"

struct upstream {
    struct upstream_pool *pool;
    struct upstream_options o;
    struct conn *conn;
    struct dial *dial;
    struct timer *header_timer;
    bool is_reused;
    bool has_answered; /* A byte of the answer came. */
    bool in_body;
    bool is_paused;
    bool over; /* Freed after the event batch. */
    bool can_keep;
    struct http1_head_parser parser;
    struct http1_body body;
    struct loop_task freeing;
    struct loop_task failing;
};

static const struct conn_events conn_events;

static void free_later(void *arg) {
    struct upstream *u = arg;
    http1_head_parser_deinit(&u->parser);
    timer_free(u->header_timer);
    free(u);
}

/* Leaves the connection, or closes it, and lets go of the exchange. */
static void finish(struct upstream *u, bool keep) {
    u->over = true;
    timer_stop(u->header_timer);
    dial_cancel(u->dial);
    u->dial = NULL;
    if (u->conn && keep) {
        upstream_pool_put(u->pool, u->conn, &u->o);
    } else {
        conn_abort(u->conn);
    }
    u->conn = NULL;
    upstream_pool_count(u->pool, -1);
    u->freeing = (struct loop_task){.fn = free_later, .arg = u};
    loop_post_task(upstream_pool_loop(u->pool), &u->freeing);
}

static void fail(struct upstream *u, const struct err *err) {
    const struct upstream_options o = u->o;
    finish(u, /* keep= */ false);
    o.events->on_fail(o.arg, err);
}

static int send_request(struct upstream *u) {
    const struct sv parts[] = {u->o.head, u->o.body};
    conn_set_events(u->conn, &conn_events, u);
    int rc = conn_writev(u->conn, parts, 2);
    if (rc == 0 || rc == ERR_CLOSED) {
        /* A lost peer is told by on_gone, where it can still be replaced. */
        conn_read_resume(u->conn);
        if (u->o.header_timeout_ms > 0) {
            timer_start(u->header_timer, u->o.header_timeout_ms);
        }
        return 0;
    }
    return rc;
}

static void on_dialled(struct conn *c, const struct err *err, void *arg) {
    struct upstream *u = arg;
    struct err e = {0};
    u->dial = NULL;
    u->conn = c;
    if (!c) {
        fail(u, err);
        return;
    }
    if (send_request(u) < 0) {
        err_set(&e, ERR_LIMIT, "the request is too big for the connection's queue");
        fail(u, &e);
    }
}

static int dial(struct upstream *u, struct err *err) {
    const struct dial_options d = {
        .host = u->o.host,
        .port = u->o.port,
        .tls = u->o.tls,
        .is_strangers = u->o.is_strangers,
        .timeout_ms = u->o.connect_timeout_ms,
        .on_done = on_dialled,
        .arg = u,
    };
    u->is_reused = false;
    return dial_start(upstream_pool_loop(u->pool), &d, &u->dial, err);
}

/* The connection was lost. Once, and only if nothing can have been answered, another is tried. */
static void lost(struct upstream *u, const struct err *err) {
    struct err e = {0};
    if (!u->is_reused || u->has_answered) {
        fail(u, err);
        return;
    }
    conn_abort(u->conn);
    u->conn = NULL;
    timer_stop(u->header_timer);
    http1_head_parser_reset(&u->parser);
    if (dial(u, &e) < 0) {
        fail(u, &e);
    }
}

static void on_gone(struct conn *c, const struct err *err, void *arg) {
    (void)c;
    lost(arg, err);
}

static void ended(struct upstream *u, bool keep) {
    const struct upstream_options o = u->o;
    o.events->on_flush(o.arg, /* is_end= */ true);
    if (u->over) {
        return;
    }
    finish(u, keep);
    o.events->on_end(o.arg);
}

static void on_eof(struct conn *c, bool truncated, void *arg) {
    struct upstream *u = arg;
    struct err e = {0};
    (void)c;
    if (!u->in_body) {
        err_set(&e, ERR_CLOSED, "the engine closed the connection without an answer");
        lost(u, &e);
        return;
    }
    if (http1_body_eof(&u->body, truncated, &e) < 0) {
        fail(u, &e);
        return;
    }
    ended(u, /* keep= */ false);
}

static void read_body(struct upstream *u, struct sv in) {
    struct err e = {0};
    struct sv span;
    size_t used;
    int rc;
    while ((rc = http1_body_next(&u->body, in, &used, &span, &e)) == HTTP1_DATA) {
        in = sv_cut(in, used);
        u->o.events->on_body(u->o.arg, span);
        if (u->over) {
            return;
        }
    }
    if (rc < 0) {
        u->o.events->on_flush(u->o.arg, /* is_end= */ false);
        if (!u->over) {
            fail(u, &e);
        }
        return;
    }
    if (rc == HTTP1_END) {
        ended(u, u->can_keep && used == in.n && conn_queued(u->conn) == 0);
        return;
    }
    u->o.events->on_flush(u->o.arg, /* is_end= */ false);
}

static void got_head(struct upstream *u, const struct http1_head *head, struct sv rest) {
    timer_stop(u->header_timer);
    u->in_body = true;
    u->can_keep = http1_keep_alive(head);
    http1_body_of_response(&u->body, head, /* head_request= */ false);
    if (u->body.framing == HTTP1_UNTIL_CLOSE) {
        u->can_keep = false;
    }
    u->o.events->on_head(u->o.arg, head);
    if (!u->over) {
        read_body(u, rest);
    }
}

static void on_read(struct conn *c, struct sv bytes, void *arg) {
    struct upstream *u = arg;
    struct err e = {0};
    (void)c;
    u->has_answered = true;
    if (u->in_body) {
        read_body(u, bytes);
        return;
    }
    for (;;) {
        struct http1_head head;
        size_t used;
        int rc = http1_head_feed(&u->parser, bytes, &used, &head, &e);
        if (rc == 0) {
            return;
        }
        if (rc > 0 && head.status == 101) {
            rc = err_set(&e, ERR_PROTOCOL, "the engine switched protocols unasked");
        }
        if (rc < 0) {
            fail(u, &e);
            return;
        }
        bytes = sv_cut(bytes, used);
        if (head.status >= 200) {
            got_head(u, &head, bytes);
            return;
        }
        http1_head_parser_reset(&u->parser); /* 100, 103: the final head follows. */
    }
}

static const struct conn_events conn_events = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_gone = on_gone,
};

static void on_header_timeout(void *arg) {
    struct upstream *u = arg;
    struct err e = {0};
    err_set(&e, ERR_TIMEOUT, "the engine sent no answer within %.1f s",
            (double)u->o.header_timeout_ms / 1000);
    fail(u, &e);
}

static void start_failed(void *arg) {
    struct upstream *u = arg;
    struct err e = {0};
    if (u->over) {
        return;
    }
    err_set(&e, ERR_LIMIT, "the request is too big for the connection's queue");
    fail(u, &e);
}

int upstream_start(struct upstream_pool *p, const struct upstream_options *o, struct upstream **out,
                   struct err *err) {
    struct upstream *u = calloc(1, sizeof *u);
    if (!u) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    u->pool = p;
    u->o = *o;
    u->parser.kind = HTTP1_RESPONSE;
    int rc = timer_new(upstream_pool_loop(p), on_header_timeout, u, &u->header_timer, err);
    if (rc < 0) {
        free(u);
        return rc;
    }
    u->conn = upstream_pool_get(p, o);
    u->is_reused = u->conn != NULL;
    if (!u->conn) {
        rc = dial(u, err);
    } else if (send_request(u) < 0) {
        u->failing = (struct loop_task){.fn = start_failed, .arg = u};
        loop_post_task(upstream_pool_loop(p), &u->failing);
    }
    if (rc < 0) {
        free_later(u);
        return rc;
    }
    upstream_pool_count(p, 1);
    *out = u;
    return 0;
}

void upstream_pause(struct upstream *u) {
    if (u->conn && !u->is_paused) {
        u->is_paused = true;
        conn_read_pause(u->conn);
    }
}

void upstream_resume(struct upstream *u) {
    if (u->conn && u->is_paused) {
        u->is_paused = false;
        conn_read_resume(u->conn);
    }
}

void upstream_cancel(struct upstream *u) {
    if (u && !u->over) {
        finish(u, /* keep= */ false);
    }
}
