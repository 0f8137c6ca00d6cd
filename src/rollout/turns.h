/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_TURNS_H
#define SNAFFLE_ROLLOUT_TURNS_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* What result.json and gateway.log take from the lines of a trace. */
struct turns {
    json_t *list;     /* The reference's RolloutTurn, and role, trainable, n_prompt. */
    json_t *findings; /* {code: how many turns have it} */
    struct buf log;   /* One line a call, for people. */
    long long completion_tokens;
    unsigned calls;      /* Of the agent itself, with an answer. */
    unsigned with_ids;   /* Of those: with the prompt's ids too, and log-probabilities; */
    unsigned with_logps; /* with log-probabilities. */
    unsigned trainable;
    unsigned discarded;
};

int turns_init(struct turns *t, struct err *err) CHECK_RESULT;
void turns_deinit(struct turns *t);

/* A trace_line_fn over a struct turns. */
int turns_add(void *turns, struct sv line, struct err *err);

/* "tokens", "logprobs", "text": what all of the agent's answers came with. NULL: no answer. */
const char *turns_level(const struct turns *t);

#endif
