/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_SPAWNER_H
#define SNAFFLE_SANDBOX_SPAWNER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Starts programs from one thread that lives as long as the process. A parent-death signal follows
 * the thread that forked, not the process: started from a rollout's thread, a sandbox would end
 * with that thread. The children die when this process dies, however it dies.
 */

#define SPAWN_FDS_MAX                                                                              \
    16 /* bwrap takes its arguments, five files of /etc, its filter, and five of ours. */

struct spawn {
    const char *program; /* An absolute path. */
    const char *const *argv;
    /* Become this user before the program starts: no groups, no capabilities, nor any way to them.
     * Otherwise the program runs as we do. */
    bool drop;
    uid_t uid;
    /* With `drop`: this block device is mounted at that folder first, for this program and its
     * children alone. A new one's root folder becomes the user's. NULL: none. Failing at that is
     * ERR_UNSUPPORTED. */
    const char *disk;
    const char *disk_at;
    bool disk_is_new;
    /* It asks for its own parent-death signal, once it can be killed without leaving a child of its
     * own behind that waits for it. Otherwise it gets one from the start. */
    bool follows_by_itself;
    /* The child's descriptors 3, 4 and so on; it has no others but stdin and stdout on /dev/null
     * and stderr here. */
    int fds[SPAWN_FDS_MAX];
    size_t n_fds;
    int stderr_fd;
};

/* Starts it with an empty environment, in a session of its own, in "/". Returns once the program
 * runs; the caller reaps *out_pid with waitpid. May be called from any thread. */
int spawner_start(const struct spawn *what, pid_t *out_pid, struct err *err) CHECK_RESULT;

#endif
