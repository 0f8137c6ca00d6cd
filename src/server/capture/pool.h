/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_CAPTURE_POOL_H
#define SNAFFLE_SERVER_CAPTURE_POOL_H

#include "base/err.h"

/* Threads that take tasks in their order; started when they are needed, and then kept. */
struct pool;

int pool_new(struct pool **out, struct err *err) CHECK_RESULT;
int pool_add(struct pool *p, void (*fn)(void *arg), void *arg, struct err *err) CHECK_RESULT;
void pool_free(struct pool *p); /* After all that was added has run. Accepts NULL. */

#endif
