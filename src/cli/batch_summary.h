/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_BATCH_SUMMARY_H
#define SNAFFLE_CLI_BATCH_SUMMARY_H

#include <stdio.h>

#include "rollout/batch.h"

/* What came of a batch, in a few lines. `dir`: the run's folder. */
int batch_summary_print(const struct batch_plan *p, const char *dir, double wall_s, FILE *stream,
                        struct err *err) CHECK_RESULT;

#endif
