/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_REWARD_H
#define SNAFFLE_ROLLOUT_REWARD_H

#include "base/err.h"
#include "base/sv.h"

#define REWARD_BYTES_MAX 64 /* The longest useful spelling of a double has 24. */

/* The content of reward.txt: one finite decimal number, blanks and line feeds around it. Anything
 * else (nothing, two numbers, nan, inf, hexadecimal, too long) is ERR_INPUT. */
int reward_parse(struct sv text, double *out, struct err *err) CHECK_RESULT;

#endif
