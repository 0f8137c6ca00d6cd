/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_SHOW_H
#define SNAFFLE_CLI_SHOW_H

#include <jansson.h>
#include <stdio.h>

#include "base/err.h"

/* One turn of a trace in full: its figures, text, reasoning, tool calls, and its tokens with ids
 * and log-probabilities, one a line. */
int show_turn(const json_t *line, FILE *stream, struct err *err) CHECK_RESULT;

#endif
