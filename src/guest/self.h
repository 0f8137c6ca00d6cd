/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_SELF_H
#define SNAFFLE_GUEST_SELF_H

#include "base/err.h"
#include "guest/loop.h"

/* What the guest does to itself before it serves: the agent runs under the same user. */

/* Descriptors 0 to 2 are open after it, and above them only the `n` of `kept` (-1: none). */
void self_close_strays(const int *kept, size_t n);

/* Not readable and not traceable by the agent; no core files; the parent of every orphan. */
int self_harden(struct err *err) CHECK_RESULT;

/* Counts all of this user namespace, so it must be set within it. 0: as it is. */
int self_limit_processes(unsigned long processes, struct err *err) CHECK_RESULT;

/* Signals as readable events: on_child for SIGCHLD; on_end for SIGTERM, SIGINT and SIGHUP, which
 * as pid 1 count only from outside of the namespace. */
struct self_signals {
    struct loop_watch watch;
    int fd;
    void (*on_child)(void *arg);
    void (*on_end)(void *arg);
    void *arg;
};
int self_catch_signals(struct self_signals *s, struct loop *loop, struct err *err) CHECK_RESULT;

#endif
