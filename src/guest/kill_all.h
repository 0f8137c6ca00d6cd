/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_KILL_ALL_H
#define SNAFFLE_GUEST_KILL_ALL_H

#include <stdbool.h>

#include "guest/job.h"
#include "guest/loop.h"

/*
 * Ends every process but the guest, and sees that none is left: as pid 1 all of the namespace,
 * otherwise all that descend from the guest. It goes on until none is left or `until` has passed.
 */
struct kill_all {
    struct jobs *jobs;
    struct loop_timer again;
    int64_t pause_ms;
    deadline_ms until;
    bool is_running;
    void (*on_end)(struct kill_all *k, int left);
};

void kill_all_init(struct kill_all *k, struct jobs *jobs, void (*on_end)(struct kill_all *, int));

/* Joins a run that goes on, whose end is moved to `until` if that is later. */
void kill_all_start(struct kill_all *k, deadline_ms until);

#endif
