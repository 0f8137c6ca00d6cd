/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_OUT_H
#define SNAFFLE_CLI_OUT_H

#include <jansson.h>

#include "base/err.h"

/* What a command prints on stdout as data. */

/* Takes `value`, prints it indented; NULL (no memory) is an error. Gives 0, to be returned. */
int out_json(json_t *value, struct err *err) CHECK_RESULT;

/* Whether all that was printed on stdout arrived; for the end of the program. */
int out_finish(struct err *err) CHECK_RESULT;

#endif
