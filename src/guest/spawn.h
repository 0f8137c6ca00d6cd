/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_SPAWN_H
#define SNAFFLE_GUEST_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Starts a command under a keeper: a process of ours between the guest and the command, to which
 * the kernel gives every orphan below it. So a command's descendants stay known as such, however
 * they daemonise, and the keeper ends when the last of them has.
 *
 * Two pipes tell what happens, in records. `start` gives the command's pid before it can do
 * anything, then SPAWN_FAILED or nothing, and ends: no failure until the end means that it runs.
 * `status` gives SPAWN_EXITED. The agent may kill a keeper at any moment: `start` still ends.
 */
enum spawn_event {
    SPAWN_PID = 1, /* value: the command's pid, which is its session and process group too. */
    SPAWN_FAILED,  /* value: errno of the fork or execve. */
    SPAWN_EXITED,  /* value: the status, as waitpid gives it but for its core flag. */
};

struct spawn_record {
    uint32_t event;
    int32_t value;
};

/* What the command gets. All borrowed; descriptors are 3 or above. */
struct spawn_plan {
    char *const *argv; /* argv[0] is looked up in the PATH of `env`. */
    char *const *env;
    int cwd_fd;
    int stdio[3];
    uint32_t user;            /* 0: the guest's own. */
    struct rlimit open_files; /* The guest raises its own for the relay; commands get this one. */
};

/* Both descriptors are non-blocking, and the caller's. */
struct spawned {
    pid_t keeper;
    int start_fd;
    int status_fd;
};

/* Root gives its rights up for good; 0 stays who it is. False with errno. */
bool become_user(uint32_t user);

/* ERR_LIMIT when there may be no more processes. */
int spawn_keeper(const struct spawn_plan *plan, struct spawned *out, struct err *err) CHECK_RESULT;

#endif
