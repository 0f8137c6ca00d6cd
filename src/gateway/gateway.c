/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/gateway.h"

#include <stdlib.h>

#include "gateway/call.h"
#include "gateway/session.h"
#include "gateway/worker.h"

/* Each holds a request and an answer; their common share of memory is the limit's reason. */
#define GATEWAY_CALLS_MAX 4096u

static void free_gateway(struct gateway *g) {
    for (unsigned i = 0; i < g->n_workers; i++) {
        worker_stop(&g->workers[i]);
    }
    endpoint_set_unref(g->default_endpoints);
    endpoints_deinit(&g->endpoints);
    pthread_rwlock_destroy(&g->table);
    free(g->workers);
    free(g);
}

int gateway_start(const struct gateway_options *o, struct gateway **out, struct err *err) {
    struct gateway *g = calloc(1, sizeof *g);
    unsigned n = o->workers ? o->workers : 1;
    uint16_t port = o->port;
    const struct profile *profile = o->engine ? profile_named(o->engine) : NULL;
    int rc = 0;
    if (o->engine && !profile) {
        rc = err_set(err, ERR_INPUT, "engine: '%s' is none that is known", o->engine);
    } else if (n > GATEWAY_WORKERS_MAX) {
        rc = err_set(err, ERR_INPUT, "want at most %u workers, got %u", GATEWAY_WORKERS_MAX, n);
    } else if (g) {
        g->workers = calloc(n, sizeof g->workers[0]);
    }
    if (!g || !g->workers) {
        free(g);
        return rc < 0 ? rc : err_set(err, ERR_NOMEM, "out of memory");
    }
    g->journal = o->journal;
    g->keep_raw = o->keep_raw;
    g->on_request = o->on_request;
    g->body_max_of = o->body_max_of;
    g->on_call_end = o->on_call_end;
    g->hooks_arg = o->hooks_arg;
    g->calls_max = o->connections_max ? o->connections_max : GATEWAY_CALLS_MAX;
    endpoints_init(&g->endpoints);
    g->endpoints.engine = profile ? profile->engine : ENGINE_UNKNOWN;
    pthread_rwlock_init(&g->table, NULL);
    while (rc == 0 && g->n_workers < n) {
        struct worker *w = &g->workers[g->n_workers++];
        rc = worker_start(w, g, o, port, err);
        port = rc == 0 && w->tcp_server ? server_port(w->tcp_server) : port;
    }
    if (rc < 0) {
        free_gateway(g);
        return rc;
    }
    *out = g;
    return 0;
}

uint16_t gateway_port(const struct gateway *g) {
    return g->workers[0].tcp_server ? server_port(g->workers[0].tcp_server) : 0;
}

int gateway_set_upstreams(struct gateway *g, const char *const *urls, struct err *err) {
    struct endpoint_set *fresh = NULL;
    int rc =
        urls && urls[0] ? endpoint_set_new(&g->endpoints, urls, ENGINE_UNKNOWN, &fresh, err) : 0;
    if (rc < 0) {
        return rc;
    }
    pthread_rwlock_wrlock(&g->table);
    struct endpoint_set *old = g->default_endpoints;
    g->default_endpoints = fresh;
    pthread_rwlock_unlock(&g->table);
    endpoint_set_unref(old);
    return 0;
}

int gateway_list_upstreams(struct gateway *g, gateway_upstream_fn fn, void *arg) {
    struct endpoints *t = &g->endpoints;
    int rc = 0;
    pthread_mutex_lock(&t->mutex);
    for (struct endpoint *e = t->first; e && rc == 0; e = e->next) {
        const struct gateway_upstream u = {
            .url = e->url,
            .calls = e->calls,
            .sessions = e->sessions,
            .is_out = endpoint_is_out(e),
        };
        rc = fn(arg, &u);
    }
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

void gateway_set_default_session(struct gateway *g, struct gateway_session *s) {
    pthread_rwlock_wrlock(&g->table);
    g->default_session = s;
    pthread_rwlock_unlock(&g->table);
}

static void add_times(struct gateway_times *to, const struct gateway_times *from) {
    for (unsigned i = 0; i < GATEWAY_TIMES; i++) {
        to->counts[i] += from->counts[i];
    }
    to->sum_us += from->sum_us;
}

static void add_stats(struct worker *w, void *arg) {
    struct gateway_stats *out = arg;
    const struct gateway_stats *s = &w->stats;
    out->calls += s->calls;
    out->calls_stored += s->calls_stored;
    out->calls_passed += s->calls_passed;
    out->calls_lost += s->calls_lost;
    out->refused += s->refused;
    out->completion_tokens += s->completion_tokens;
    out->prompt_tokens += s->prompt_tokens;
    out->ended_complete += s->ended_complete;
    out->ended_error += s->ended_error;
    out->client_aborts += s->client_aborts;
    out->upstream_aborts += s->upstream_aborts;
    out->moved += s->moved;
    add_times(&out->added, &s->added);
}

void gateway_stats(struct gateway *g, struct gateway_stats *out) {
    *out = (struct gateway_stats){0};
    workers_call(g, add_stats, out);
    out->calls_open = out->calls - out->calls_stored - out->calls_passed - out->calls_lost;
    pthread_rwlock_rdlock(&g->table);
    for (const struct gateway_session *s = g->sessions; s; s = s->next) {
        out->sessions++;
    }
    pthread_rwlock_unlock(&g->table);
}

const int64_t gateway_time_bounds_us[GATEWAY_TIMES - 1] = {
    50, 100, 150, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 1000000};

static void drain(struct worker *w, void *arg) {
    (void)arg;
    if (w->tcp_server) {
        server_drain(w->tcp_server);
    }
}

void gateway_drain(struct gateway *g) {
    workers_call(g, drain, NULL);
}

static void count_connections(struct worker *w, void *arg) {
    unsigned *n = arg;
    *n += w->tcp_server ? server_clients(w->tcp_server) : 0;
}

unsigned gateway_connections(struct gateway *g) {
    unsigned n = 0;
    workers_call(g, count_connections, &n);
    return n;
}

static void unlisten(struct worker *w, void *arg) {
    (void)arg;
    server_free(w->tcp_server);
    w->tcp_server = NULL;
}

void gateway_stop(struct gateway *g) {
    if (!g) {
        return;
    }
    workers_call(g, unlisten, NULL);
    while (g->sessions) {
        (void)gateway_session_close(g->sessions, deadline_in_ms(0), NULL); /* It ends anyhow. */
    }
    free_gateway(g);
}
