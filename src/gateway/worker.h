/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_WORKER_H
#define SNAFFLE_GATEWAY_WORKER_H

#include "base/buf.h"
#include "gateway/gateway.h"
#include "net/loop.h"
#include "net/server.h"

/* One of the gateway's threads: a loop with a listener, its own connections to engines and its own
 * calls. All but the first two fields belong to the loop's thread. */

struct call;
struct upstream_pool;

struct worker {
    struct gateway *gateway;
    struct loop *loop;
    struct server *tcp_server; /* NULL: none. */
    struct upstream_pool *pool;
    struct call *calls; /* Under way. */
    struct call *spare_calls;
    unsigned n_spare_calls;
    struct buf out; /* The memory of what is about to be sent, between two calls' uses. */
    struct gateway_stats stats; /* But for what is counted when asked for. */
};

/* `port`: 0 takes any; all workers of a gateway share one. */
int worker_start(struct worker *w, struct gateway *g, const struct gateway_options *o,
                 uint16_t port, struct err *err) CHECK_RESULT;
void worker_stop(struct worker *w); /* When no call is left. Also of one that did not start. */

void workers_call(struct gateway *g, void (*fn)(struct worker *w, void *arg), void *arg);

#endif
