/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_SUMMARY_H
#define SNAFFLE_CLI_SUMMARY_H

#include <jansson.h>
#include <stdio.h>

#include "base/err.h"

/* What came of a rollout, in a few lines, from its result.json. `dir`: its folder, or NULL. */
int summary_print(const json_t *result, const char *dir, FILE *stream,
                  struct err *err) CHECK_RESULT;

/* One line "label       text", the text made harmless. */
int summary_line(const char *label, const char *text, FILE *stream, struct err *err) CHECK_RESULT;

#endif
