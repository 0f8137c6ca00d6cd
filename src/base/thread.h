/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_THREAD_H
#define SNAFFLE_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"

/* Starts a thread that takes no signals: those are for the program's own threads, where a handler
 * holds up nobody's work. What would end a process (SIGPIPE, SIGXFSZ) is an error code there.
 * `stack_bytes`: 0 for the system's choice. Gives 0 or an errno. */
int thread_start(pthread_t *out, size_t stack_bytes, void *(*run)(void *), void *arg) CHECK_RESULT;

/* Waits for the condition until the deadline at most; may return earlier for no reason. */
void thread_wait(pthread_cond_t *condition, pthread_mutex_t *held, deadline_ms until);

#endif
