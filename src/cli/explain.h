/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_EXPLAIN_H
#define SNAFFLE_CLI_EXPLAIN_H

#include <jansson.h>
#include <stdio.h>

#include "base/err.h"

/* Findings for people: their severity in colour on a terminal, what they mean, what to do. The
 * lists hold codes, or {code, detail}; what comes from a file is made harmless. */

/* Under `heading`: one paragraph a finding. Nothing for an empty list. */
int explain_findings(const json_t *findings, const char *heading, FILE *stream,
                     struct err *err) CHECK_RESULT;

/* Lines of a summary, whose label takes `width` columns: severity, code, detail. */
int explain_briefly(const json_t *findings, int width, FILE *stream, struct err *err) CHECK_RESULT;

#endif
