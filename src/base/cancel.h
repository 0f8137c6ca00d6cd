/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_CANCEL_H
#define SNAFFLE_BASE_CANCEL_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"

/*
 * A switch that another thread (or a signal handler) throws to end waits. cancel_fd becomes
 * readable once thrown and stays so; it can be polled by any number of waiters. All functions but
 * those that make and free it may be called from any thread; cancel_throw also from a signal
 * handler. Functions that take a `struct cancel *` borrow it and accept NULL (never cancelled).
 */
struct cancel;

int cancel_new(struct cancel **out, struct err *err) CHECK_RESULT;
/* A switch that counts as thrown also when `parent` is, which must outlive it. NULL: no parent. */
int cancel_new_under(const struct cancel *parent, struct cancel **out,
                     struct err *err) CHECK_RESULT;
void cancel_free(struct cancel *c);
void cancel_throw(struct cancel *c);
bool cancel_thrown(const struct cancel *c);
int cancel_fd(const struct cancel *c); /* -1 for NULL. */

/* Sleeps until the deadline; ERR_CANCELLED if the switch is thrown before. */
int cancel_sleep(const struct cancel *c, deadline_ms until, struct err *err) CHECK_RESULT;

/* Waits until `fd` shows one of `events` (poll(2)). 0 when it does, ERR_TIMEOUT, ERR_CANCELLED or
 * ERR_SYS otherwise. */
int cancel_poll(const struct cancel *c, int fd, short events, deadline_ms until,
                struct err *err) CHECK_RESULT;

#endif
