/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_PROCTREE_H
#define SNAFFLE_GUEST_PROCTREE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Processes as /proc tells them. Ended but unreaped ones (zombies) are not among them, unless said;
 * one whose first thread alone has ended is. */

/* Sends SIGKILL to all descendants of `root` and to everything in session `session` (0: none);
 * never to `spared` (0: nobody) and to the caller. Gives how many got it, or an error. */
struct proctree_kill {
    pid_t root;
    pid_t session;
    pid_t spared;
};
int proctree_kill(const struct proctree_kill *what, struct err *err) CHECK_RESULT;

/* Sends SIGKILL to every process but the caller and its ancestors; gives how many got it. */
int proctree_kill_others(struct err *err) CHECK_RESULT;

/* How many processes have that uid as theirs, real, effective, saved or for files. */
int proctree_count_user(uint32_t user, struct err *err) CHECK_RESULT;

/* How many processes but this one there are in /proc. Zombies count, but for those whose parent
 * stands outside of this pid namespace: nobody inside can reap them. */
int proctree_count_others(struct err *err) CHECK_RESULT;

#endif
