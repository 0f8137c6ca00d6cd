/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_SPAWN_H
#define SNAFFLE_GUEST_SPAWN_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Starts a command under a keeper: a process of ours between the guest and the command, to which
 * the kernel gives every orphan below it. So a command's descendants stay known as such, however
 * they daemonise, and the keeper ends when the last of them has.
 *
 * The keeper tells what happens through its status pipe, one record each: started or failed, then
 * exited.
 */
enum spawn_event {
    SPAWN_STARTED = 1, /* value: the command's pid, which is its session and process group too. */
    SPAWN_FAILED,      /* value: errno of execve. */
    SPAWN_EXITED,      /* value: the status as waitpid gives it. */
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
    struct rlimit open_files; /* The guest raises its own for the relay; commands get this one. */
};

/* Gives the keeper's pid, and the status pipe's end to read, non-blocking. ERR_LIMIT when there may
 * be no more processes. */
int spawn_keeper(const struct spawn_plan *plan, pid_t *keeper, int *status_fd,
                 struct err *err) CHECK_RESULT;

#endif
