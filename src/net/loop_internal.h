/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_LOOP_INTERNAL_H
#define SNAFFLE_NET_LOOP_INTERNAL_H

#include <pthread.h>
#include <uv.h>

#include "net/loop.h"

/* What the files of this room share of the loop. */

struct conn;

struct loop {
    uv_loop_t uv;
    uv_async_t wake;
    pthread_t thread;
    pthread_mutex_t lock; /* Over the tasks. */
    struct loop_task *first;
    struct loop_task **last;
    struct conn *ending; /* Finished by their owners, still flushing or lingering. */
    char *read_buffer;   /* CONN_READ_MAX bytes. */
};

/* conn_end.c: cuts those that are still ending. */
void conn_drop_ending(struct loop *l);

#endif
