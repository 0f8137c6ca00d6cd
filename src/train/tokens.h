/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TRAIN_TOKENS_H
#define SNAFFLE_TRAIN_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "journal/trace.h"

/* Engines write this, or less, where they have no log-probability (vLLM, for minus infinity). */
#define TOKENS_LOGP_FLOOR (-9999.0)

/* The sampled tokens of one call, as the engine told them: numbers and the faults of values. */
struct tokens {
    size_t prompt_ids;
    size_t ids;
    size_t logps;
    size_t zeros;           /* Log-probabilities that are exactly 0. */
    bool bad_ids;           /* Something in the ids that is no whole number from 0 up. */
    bool null_logp;         /* Something in the log-probabilities that is no number. */
    bool nonfinite_logp;    /* One that no double holds. */
    bool floored_logp;      /* One at the floor or below. */
    bool positive_logp;     /* One above 0: no probability. */
    long long usage_ids;    /* usage.completion_tokens; -1: not said. */
    long long usage_prompt; /* usage.prompt_tokens; likewise. */
};

void tokens_of(const struct trace_call *call, struct tokens *out);

#endif
