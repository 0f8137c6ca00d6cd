/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_WATCH_H
#define SNAFFLE_GUEST_WATCH_H

#include <stdint.h>

#include "guest/kill_all.h"
#include "guest/loop.h"
#include "guest/usage.h"

/*
 * Sees limits being hit. Where the kernel holds a limit, the watch only looks whether it stands at
 * it; where nothing does, it counts, and kills all that runs when the limit is passed. It looks now
 * and then: what comes between two looks is not held.
 */
struct watch_options {
    uint64_t memory_mb;  /* Kill above it; 0: the kernel's affair. */
    uint64_t disk_mb;    /* Likewise, counted in the current folder: the home. */
    uint64_t processes;  /* Say when so many threads run; 0: the kernel's affair. */
    bool home_has_bound; /* The home is a file system of its own: say when it is full. */
};

struct watch {
    struct watch_options options;
    struct loop *loop;
    struct kill_all *kill_all;
    struct loop_timer look;
    struct loop_timer count;
    int home_fd;
    uint64_t hits;   /* PROTOCOL_LIMIT_* */
    bool is_killing; /* The server takes no new request until that has ended. */
    struct usage_walk walk;
    uint64_t disk_allowed; /* Bytes; above the limit for what a kill has left behind. */
    bool forgives;         /* The next count says what was left behind. */
};

/* The current folder is the home. Without options it looks at /tmp and /dev/shm alone. */
void watch_begin(struct watch *w, struct loop *loop, struct kill_all *kill_all,
                 const struct watch_options *options);

/* The kill has ended, whoever began it. */
void watch_kill_ended(struct watch *w);

/* Looks once more, and gives all that was seen so far. */
uint64_t watch_hits(struct watch *w);

#endif
