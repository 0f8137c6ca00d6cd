/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <signal.h>
#include <time.h>

int thread_start(pthread_t *out, size_t stack_bytes, void *(*run)(void *), void *arg) {
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    int r = pthread_attr_init(&attr);
    if (r != 0) {
        return r;
    }
    r = stack_bytes ? pthread_attr_setstacksize(&attr, stack_bytes) : 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = r != 0 ? r : pthread_create(out, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return r;
}

void thread_wait(pthread_cond_t *condition, pthread_mutex_t *held, deadline_ms until) {
    if (until == DEADLINE_NEVER) {
        pthread_cond_wait(condition, held);
        return;
    }
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000L};
    (void)pthread_cond_clockwait(condition, held, CLOCK_MONOTONIC, &at);
}
