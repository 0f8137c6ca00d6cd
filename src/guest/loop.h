/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_LOOP_H
#define SNAFFLE_GUEST_LOOP_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

/*
 * The guest's one loop over poll(2). A watch or timer is embedded in its owner, who may drop or
 * free it from inside any callback. Descriptors stay the owner's.
 */
struct loop_watch {
    void (*on_ready)(struct loop_watch *w, short events);
    size_t slot; /* 1 + place in the loop's table; 0: not watched. */
};

struct loop_timer {
    void (*on_time)(struct loop_timer *t);
    struct loop_timer *next;
    deadline_ms at;
    bool is_armed;
};

struct loop {
    struct pollfd *fds;
    struct loop_watch **watches;
    size_t n;
    size_t cap;
    struct loop_timer *timers;
    bool has_holes;
    bool is_stopped;
};

/* Hang-up and error are reported whatever `events` says, unless muted. ERR_NOMEM. */
int loop_add(struct loop *l, struct loop_watch *w, int fd, short events) CHECK_RESULT;
void loop_want(struct loop *l, struct loop_watch *w, short events);
void loop_mute(struct loop *l, struct loop_watch *w); /* Until the next loop_want. */
void loop_drop(struct loop *l, struct loop_watch *w); /* Before its descriptor is closed. */

void loop_arm(struct loop *l, struct loop_timer *t, deadline_ms at); /* Moves an armed one. */
void loop_disarm(struct loop *l, struct loop_timer *t);

/* Runs until loop_stop, or ERR_SYS. */
int loop_run(struct loop *l, struct err *err) CHECK_RESULT;
void loop_stop(struct loop *l);
void loop_deinit(struct loop *l);

/* The owner of an embedded member. */
#define LOOP_OWNER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
