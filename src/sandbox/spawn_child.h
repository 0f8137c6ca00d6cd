/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_SPAWN_CHILD_H
#define SNAFFLE_SANDBOX_SPAWN_CHILD_H

#include "sandbox/spawner.h"

/*
 * The forked child's side, up to execve: nothing but async-signal-safe calls, since other threads
 * were in the middle of anything when it was forked.
 */

enum spawn_step {
    SPAWN_STEP_FDS,
    SPAWN_STEP_MOUNT,
    SPAWN_STEP_USER,
    SPAWN_STEP_PRIVILEGES,
    SPAWN_STEP_PARENT,
    SPAWN_STEP_EXEC,
};
struct spawn_failure {
    int sys; /* errno */
    enum spawn_step step;
};
extern const char *const spawn_step_names[];

/* Never returns; a failure is written to `report_fd`, which closes by itself on success. */
void spawn_child_run(const struct spawn *what, pid_t parent, int report_fd)
    __attribute__((noreturn));

#endif
