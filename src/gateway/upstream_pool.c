/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/upstream_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* How often idle connections are looked through: one leaves at most this much too late. */
#define POOL_SWEEP_MS 500

struct idle {
    struct idle *next;
    struct upstream_pool *pool;
    struct conn *conn;
    char *host;
    uint16_t port;
    const struct tls_context *tls;
    bool is_strangers;
    int64_t since_ms;
};

struct upstream_pool {
    struct loop *loop;
    struct timer *sweep;
    struct idle *idle; /* Last used first: the others get a chance to leave. */
    unsigned n_idle;
    int under_way;
};

static void unlink_idle(struct idle *i) {
    struct idle **at = &i->pool->idle;
    while (*at != i) {
        at = &(*at)->next;
    }
    *at = i->next;
    i->pool->n_idle--;
    free(i->host);
    free(i);
}

static void drop(struct idle *i) {
    conn_abort(i->conn);
    unlink_idle(i);
}

/* An engine has nothing to say on an idle connection: whatever comes makes it unusable. */
static void on_read(struct conn *c, struct sv bytes, void *arg) {
    (void)c;
    (void)bytes;
    drop(arg);
}

static void on_eof(struct conn *c, bool truncated, void *arg) {
    (void)c;
    (void)truncated;
    drop(arg);
}

static void on_gone(struct conn *c, const struct err *err, void *arg) {
    (void)c;
    (void)err;
    drop(arg);
}

static const struct conn_events idle_events = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_gone = on_gone,
};

static void on_sweep(void *arg) {
    struct upstream_pool *p = arg;
    int64_t oldest = loop_now_ms(p->loop) - UPSTREAM_IDLE_MS;
    struct idle *next;
    for (struct idle *i = p->idle; i; i = next) {
        next = i->next;
        if (i->since_ms <= oldest) {
            drop(i);
        }
    }
    if (p->idle) {
        timer_start(p->sweep, POOL_SWEEP_MS);
    }
}

int upstream_pool_new(struct loop *l, struct upstream_pool **out, struct err *err) {
    struct upstream_pool *p = calloc(1, sizeof *p);
    if (!p) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    p->loop = l;
    int rc = timer_new(l, on_sweep, p, &p->sweep, err);
    if (rc < 0) {
        free(p);
        return rc;
    }
    *out = p;
    return 0;
}

void upstream_pool_free(struct upstream_pool *p) {
    if (!p) {
        return;
    }
    BUG_IF(p->under_way > 0);
    while (p->idle) {
        drop(p->idle);
    }
    timer_free(p->sweep);
    free(p);
}

struct conn *upstream_pool_get(struct upstream_pool *p, const struct upstream_options *o) {
    int64_t oldest = loop_now_ms(p->loop) - UPSTREAM_IDLE_MS;
    for (struct idle *i = p->idle; i; i = i->next) {
        if (i->port == o->port && i->tls == o->tls && i->is_strangers == o->is_strangers &&
            i->since_ms > oldest && strcmp(i->host, o->host) == 0) {
            struct conn *c = i->conn;
            unlink_idle(i);
            return c;
        }
    }
    return NULL;
}

void upstream_pool_put(struct upstream_pool *p, struct conn *c, const struct upstream_options *o) {
    struct idle *i = p->n_idle < UPSTREAM_IDLE_MAX ? calloc(1, sizeof *i) : NULL;
    char *host = i ? mem_strdup(o->host) : NULL;
    if (!host) {
        free(i);
        conn_abort(c);
        return;
    }
    *i = (struct idle){
        .next = p->idle,
        .pool = p,
        .conn = c,
        .host = host,
        .port = o->port,
        .tls = o->tls,
        .is_strangers = o->is_strangers,
        .since_ms = loop_now_ms(p->loop),
    };
    if (!p->idle) {
        timer_start(p->sweep, POOL_SWEEP_MS);
    }
    p->idle = i;
    p->n_idle++;
    conn_set_events(c, &idle_events, i);
    conn_read_resume(c);
}

struct loop *upstream_pool_loop(const struct upstream_pool *p) {
    return p->loop;
}

void upstream_pool_count(struct upstream_pool *p, int change) {
    p->under_way += change;
}
