/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TRAIN_TOKENS_H
#define SNAFFLE_TRAIN_TOKENS_H

#include <jansson.h>
#include <stdbool.h>

#include "journal/trace.h"

/* The sampled tokens of one call, as the engine told them. */
struct tokens {
    size_t prompt_ids;
    size_t ids;
    size_t logps;
    bool bad_ids;        /* Something in the ids that is no whole number from 0 up. */
    bool null_logp;      /* Something in the log-probabilities that is no number. */
    bool positive_logp;  /* One above 0: no probability. */
    long long usage_ids; /* usage.completion_tokens; -1: not said. */
};

void tokens_of(const struct trace_call *call, struct tokens *out);

/* Whether the sampling fields that went out leave the distribution as the model gave it, so that
 * log-probabilities before and after sampling are the same. A field that is not there leaves it to
 * the engine, whose default is not known: not neutral but for those whose default is neutral
 * everywhere. `sent` may be NULL. */
bool sampling_is_neutral(const json_t *sent);

#endif
