/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_UPSTREAM_POOL_H
#define SNAFFLE_GATEWAY_UPSTREAM_POOL_H

#include "gateway/upstream.h"
#include "net/conn.h"

/* Idle connections by host, port, TLS and who named the host. Loop thread only. */

/* An idle connection to that place, which is the caller's now, or NULL. */
struct conn *upstream_pool_get(struct upstream_pool *p, const struct upstream_options *o);

/* Takes the connection. It leaves when it becomes readable, is closed, or was idle too long. */
void upstream_pool_put(struct upstream_pool *p, struct conn *c, const struct upstream_options *o);

struct loop *upstream_pool_loop(const struct upstream_pool *p);
void upstream_pool_count(struct upstream_pool *p, int change); /* Exchanges under way. */

#endif
