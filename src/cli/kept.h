/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_KEPT_H
#define SNAFFLE_CLI_KEPT_H

#include "cli/option.h"
#include "journal/trace.h"
#include "store/store.h"

/* What earlier rollouts left, for the commands that look at it. */

#define KEPT_RUNS_OPTION                                                                           \
    { "runs", OPTION_FOLDER, "DIR", "where runs are kept (default: ./runs)", NULL }

/* Opens the store that --runs names. One that does not exist is not made: ERR_NOT_FOUND. */
int kept_open(const struct args *a, struct store **out, struct err *err) CHECK_RESULT;

/* The same, and finds the rollout that the first operand names. */
int kept_find(const struct args *a, struct store **store, struct store_row *row,
              struct err *err) CHECK_RESULT;

/* Each line of the rollout's trace; while it runs (or when it died), what the journal has. */
int kept_trace(const struct store *s, const struct store_row *row, trace_line_fn line, void *arg,
               struct err *err) CHECK_RESULT;

/* Gives result.json, or NULL while there is none. */
int kept_result(const struct store_row *row, json_t **out, struct err *err) CHECK_RESULT;

#endif
