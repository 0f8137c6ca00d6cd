/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_COMMAND_H
#define SNAFFLE_ROLLOUT_COMMAND_H

#include <jansson.h>

#include "base/err.h"
#include "sandbox/sandbox.h"

#define COMMAND_TAIL_CHARS 2000 /* Of each stream, as the reference's CommandResult. */

struct command_end {
    int exit_code; /* -1: it could not be run. */
    bool timed_out;
};

/*
 * Runs the shell text of `what` and appends its CommandResult {cmd, exit_code, stdout, stderr,
 * duration_s} to `results`, also when it could not be run (exit_code -1, stderr "NAME: text").
 * A non-zero exit is a success of this function; the error is the sandbox's.
 */
int command_run(struct sandbox *sandbox, const struct sandbox_exec *what, json_t *results,
                struct command_end *out, struct err *err) CHECK_RESULT;

#endif
