/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/gateway.h"

#include <stdlib.h>

#include "gateway/call.h"
#include "gateway/session.h"
#include "net/tls.h"

/* Each holds a request and an answer; their common share of memory is the limit's reason. */
#define GATEWAY_CALLS_MAX 4096u

static void free_gateway(struct gateway *g) {
    if (g->loop) {
        loop_free(g->loop);
    }
    tls_context_free(g->tls);
    pthread_mutex_destroy(&g->mutex);
    free(g);
}

static int listen_tcp(struct gateway *g, const struct gateway_options *o, struct err *err) {
    const struct server_options so = {
        .host = o->host,
        .port = o->port,
        .wants_body = route_may_ask,
        .on_request = route_tcp,
        .arg = g,
    };
    return o->host ? server_new(g->loop, &so, &g->tcp_server, err) : 0;
}

/* Timers are made on the loop's thread. */
struct pool_task {
    struct gateway *g;
    struct err *err;
    int rc;
};

static void make_pool(void *arg) {
    struct pool_task *t = arg;
    t->rc = upstream_pool_new(t->g->loop, &t->g->pool, t->err);
}

static void free_pool(void *arg) {
    struct gateway *g = arg;
    upstream_pool_free(g->pool);
    call_free_spare(g);
}

int gateway_start(const struct gateway_options *o, struct gateway **out, struct err *err) {
    struct gateway *g = calloc(1, sizeof *g);
    if (!g) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    g->journal = o->journal;
    g->keep_raw = o->keep_raw;
    g->on_request = o->on_request;
    g->on_request_arg = o->on_request_arg;
    g->calls_max = o->connections_max ? o->connections_max : GATEWAY_CALLS_MAX;
    pthread_mutex_init(&g->mutex, NULL);
    int rc = loop_new(&g->loop, err);
    if (rc == 0) {
        struct pool_task task = {g, err, 0};
        loop_call(g->loop, make_pool, &task);
        rc = task.rc;
    }
    rc = rc < 0 ? rc : listen_tcp(g, o, err);
    if (rc < 0) {
        if (g->pool) {
            loop_call(g->loop, free_pool, g);
        }
        free_gateway(g);
        return rc;
    }
    *out = g;
    return 0;
}

uint16_t gateway_port(const struct gateway *g) {
    return g->tcp_server ? server_port(g->tcp_server) : 0;
}

struct stats_task {
    const struct gateway *g;
    struct gateway_stats *out;
};

static void read_stats(void *arg) {
    const struct stats_task *t = arg;
    struct gateway_stats *out = t->out;
    *out = t->g->stats;
    out->calls_open = out->calls - out->calls_stored - out->calls_passed - out->calls_lost;
    for (const struct gateway_session *s = t->g->sessions; s; s = s->next) {
        out->sessions++;
    }
}

void gateway_stats(struct gateway *g, struct gateway_stats *out) {
    loop_call(g->loop, read_stats, &(struct stats_task){g, out});
}

void gateway_stop(struct gateway *g) {
    if (!g) {
        return;
    }
    server_free(g->tcp_server);
    while (g->sessions) {
        (void)gateway_session_close(g->sessions, deadline_in_ms(0), NULL); /* It ends anyhow. */
    }
    loop_call(g->loop, free_pool, g);
    free_gateway(g);
}
