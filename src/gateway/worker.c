/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/worker.h"

#include "gateway/call.h"
#include "gateway/session.h"

/* Timers are made on the loop's thread. */
struct pool_task {
    struct worker *w;
    struct err *err;
    int rc;
};

static void make_pool(void *arg) {
    struct pool_task *t = arg;
    t->rc = upstream_pool_new(t->w->loop, &t->w->pool, t->err);
}

static void free_pool(void *arg) {
    struct worker *w = arg;
    upstream_pool_free(w->pool);
    call_free_spare(w);
    buf_deinit(&w->out);
}

int worker_start(struct worker *w, struct gateway *g, const struct gateway_options *o,
                 uint16_t port, struct err *err) {
    struct pool_task task = {w, err, 0};
    w->gateway = g;
    int rc = loop_new(&w->loop, err);
    if (rc < 0) {
        return rc;
    }
    loop_call(w->loop, make_pool, &task);
    if (task.rc < 0 || !o->host) {
        return task.rc;
    }
    const struct server_options so = {
        .host = o->host,
        .port = port,
        .shares_port = o->workers > 1,
        .clients_max = o->clients_max,
        .body_max_of = route_body_max,
        .on_request = route_tcp,
        .arg = w,
    };
    return server_new(w->loop, &so, &w->tcp_server, err);
}

void worker_stop(struct worker *w) {
    if (!w->loop) {
        return;
    }
    server_free(w->tcp_server);
    loop_call(w->loop, free_pool, w);
    loop_free(w->loop);
}

struct visit {
    struct worker *w;
    void (*fn)(struct worker *w, void *arg);
    void *arg;
};

static void run_visit(void *arg) {
    struct visit *v = arg;
    v->fn(v->w, v->arg);
}

void workers_call(struct gateway *g, void (*fn)(struct worker *w, void *arg), void *arg) {
    for (unsigned i = 0; i < g->n_workers; i++) {
        struct visit v = {&g->workers[i], fn, arg};
        loop_call(v.w->loop, run_visit, &v);
    }
}
