/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_AGENTS_H
#define SNAFFLE_ROLLOUT_AGENTS_H

#include "base/err.h"

/* Where this machine's agents are kept: <state>/agents (agent/install.h's cache_dir). Installing
 * and running look in the same place. The caller frees. */
int rollout_agents_dir(char **out, struct err *err) CHECK_RESULT;

#endif
