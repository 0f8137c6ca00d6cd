/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/local.h"

/* Waiting for what happens to a life, and ending it. */

/* The kernel ends a pid namespace in milliseconds, unless it swaps or the machine stands still. */
#define DEATH_MS 30000

int local_poll(const struct local *l, struct pollfd *fds, nfds_t n, deadline_ms until,
               const struct cancel *cancel, struct err *err) {
    struct pollfd all[6];
    BUG_IF(n > 4);
    memcpy(all, fds, n * sizeof *fds);
    all[n] = (struct pollfd){.fd = cancel_fd(cancel), .events = POLLIN};
    all[n + 1] = (struct pollfd){.fd = cancel_fd(l->torn_down), .events = POLLIN};
    for (;;) {
        int got = poll(all, n + 2, deadline_poll_ms(until));
        if (got < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot wait for the sandbox");
        }
        if (cancel_thrown(l->torn_down)) {
            return err_set(err, ERR_LOST, "sandbox '%s' was torn down", l->base.id);
        }
        if (cancel_thrown(cancel)) {
            return err_set(err, ERR_CANCELLED, "cancelled while the sandbox started");
        }
        int seen = 0;
        for (nfds_t i = 0; got > 0 && i < n; i++) {
            fds[i].revents = all[i].revents;
            seen |= all[i].revents;
        }
        if (seen) {
            return 0;
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "the sandbox did not start in time");
        }
    }
}

static void reap(pid_t *pid) {
    while (*pid > 0 && waitpid(*pid, NULL, 0) < 0 && errno == EINTR) {
    }
    *pid = 0;
}

void local_end_child(pid_t *pid) {
    if (*pid > 0) {
        kill(*pid, SIGKILL); /* Not reaped yet, so the number is still its own. */
        reap(pid);
    }
}

void local_end_helper(pid_t *pid) {
    if (*pid > 0) {
        kill(*pid, SIGTERM);
        reap(pid);
    }
}

/* A pidfd of a namespace's first process turns readable when the kernel has ended and reaped every
 * other process of it: that is the proof that all are dead. */
static int end_payload(struct life *life, struct err *err) {
    struct pollfd p = {.fd = life->pidfd, .events = POLLIN};
    if (life->pidfd < 0) {
        return 0;
    }
    (void)syscall(SYS_pidfd_send_signal, life->pidfd, SIGKILL, NULL, 0); /* ESRCH: it is dead. */
    deadline_ms until = deadline_in_ms(DEATH_MS);
    while (poll(&p, 1, deadline_poll_ms(until)) < 0 && errno == EINTR) {
    }
    if (!(p.revents & POLLIN)) {
        return err_set(err, ERR_TIMEOUT, "the sandbox's processes do not end");
    }
    close(life->pidfd);
    life->pidfd = -1;
    return 0;
}

int local_end(struct local *l, struct err *err) {
    int r = end_payload(&l->life, err);
    local_end_child(&l->life.bwrap);
    local_end_helper(&l->life.helper);
    local_limits_keep(l);
    cgroup_remove(&l->box.cgroup);
    return r;
}
