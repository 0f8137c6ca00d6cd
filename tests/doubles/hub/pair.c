/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/hub/pair.h"

#include <stdbool.h>
#include <stdlib.h>

struct end {
    struct pair *pair;
    struct conn *conn;
    struct end *other;
    uint64_t left; /* What may still be sent of it; only with `limited`. */
    bool limited;
};

struct pair {
    struct end a, b;
};

static void part(struct pair *p, bool orderly) {
    struct conn *conns[] = {p->a.conn, p->b.conn};
    free(p);
    for (size_t i = 0; i < 2; i++) {
        if (orderly) {
            conn_finish(conns[i]);
        } else {
            conn_finish_reset(conns[i]);
        }
    }
}

static void on_read(struct conn *c, struct sv bytes, void *arg) {
    struct end *e = arg;
    bool last = e->limited && bytes.n >= e->left;
    if (last) {
        bytes.n = (size_t)e->left;
    }
    e->left -= e->limited ? bytes.n : 0;
    if (conn_write(e->other->conn, bytes) < 0 || last) {
        part(e->pair, false);
    } else if (conn_is_full(e->other->conn)) {
        conn_read_pause(c);
    }
}

/* These servers end a connection whole: half an end is passed on as the end of both. */
static void on_eof(struct conn *c, bool truncated, void *arg) {
    struct end *e = arg;
    (void)c;
    part(e->pair, !truncated);
}

static void on_gone(struct conn *c, const struct err *err, void *arg) {
    struct end *e = arg;
    (void)c;
    (void)err;
    part(e->pair, false);
}

static void on_drain(struct conn *c, void *arg) {
    struct end *e = arg;
    (void)c;
    conn_read_resume(e->other->conn);
}

static const struct conn_events events = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_gone = on_gone,
    .on_drain = on_drain,
};

void pair_join(struct conn *a, struct conn *b, uint64_t b_limit) {
    struct pair *p = calloc(1, sizeof *p);
    if (!p) {
        conn_abort(a);
        conn_abort(b);
        return;
    }
    p->a = (struct end){.pair = p, .conn = a, .other = &p->b};
    p->b =
        (struct end){.pair = p, .conn = b, .other = &p->a, .left = b_limit, .limited = b_limit > 0};
    conn_set_events(a, &events, &p->a);
    conn_set_events(b, &events, &p->b);
    conn_read_resume(a);
    conn_read_resume(b);
}
