/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_METRICS_H
#define SNAFFLE_SERVER_METRICS_H

#include "server/openenv/openenv.h"

/* Answers /metrics: what the tool did, in the text format of Prometheus, version 0.0.4. `started`:
 * seconds since 1970. Loop thread only. */
void metrics_answer(struct exchange *x, struct tool_box *tools, const struct openenv *openenv,
                    double started);

#endif
