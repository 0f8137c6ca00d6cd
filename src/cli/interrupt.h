/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_INTERRUPT_H
#define SNAFFLE_CLI_INTERRUPT_H

#include "base/cancel.h"
#include "base/err.h"

/*
 * Ctrl-C, SIGTERM and SIGHUP: the first throws `soft` (the agent is stopped, what there is gets
 * collected), the second `hard` (torn down at once), a third ends the process as if nothing had
 * been installed. Both switches are kept for the life of the process. SIGPIPE is ignored: a reader
 * that goes away must not end a rollout without its teardown.
 */
int interrupt_install(struct cancel *soft, struct cancel *hard, struct err *err) CHECK_RESULT;

#endif
