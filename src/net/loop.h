/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_LOOP_H
#define SNAFFLE_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * An event loop in a thread of its own. What lives on it (timers, connections, listeners, dials) is
 * touched on that thread only; other threads reach it by loop_post and loop_call. Nothing that runs
 * on it may block.
 */
struct loop;

int loop_new(struct loop **out, struct err *err) CHECK_RESULT;

/* Ends the thread after what was posted before has run, and frees the loop. Called from another
 * thread, when every listener, connection, dial and timer on it was closed or freed. */
void loop_free(struct loop *l);

bool loop_is_current(const struct loop *l); /* The caller runs on the loop's thread. */

/* A note to run something soon; embedded in what it is about, so that posting needs no memory. */
struct loop_task {
    void (*fn)(void *arg);
    void *arg;
    struct loop_task *next; /* The loop's. */
    bool is_heap;           /* Freed when it has run. */
};

/* Runs task->fn(task->arg) on the loop's thread, in the order posted; any thread, never from inside
 * the call. The note may be posted again, or freed, once it runs. */
void loop_post_task(struct loop *l, struct loop_task *task);

/* The same with a note of its own. Aborts the process when there is no memory for its 32 bytes. */
void loop_post(struct loop *l, void (*fn)(void *arg), void *arg);

/* The same, and waits until it has run; from the loop's own thread it runs at once. */
void loop_call(struct loop *l, void (*fn)(void *arg), void *arg);

/* The loop's clock: monotonic milliseconds, taken once an event batch. */
int64_t loop_now_ms(const struct loop *l);

/* One-shot timers. Loop thread only. The callback may start, stop or free its own timer. */
struct timer;
int timer_new(struct loop *l, void (*fn)(void *arg), void *arg, struct timer **out,
              struct err *err) CHECK_RESULT;
void timer_start(struct timer *t, int64_t ms); /* From now; replaces an earlier start. */
void timer_stop(struct timer *t);
void timer_free(struct timer *t); /* Accepts NULL. */

#endif
