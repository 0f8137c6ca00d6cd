/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TRAIN_JUDGE_H
#define SNAFFLE_TRAIN_JUDGE_H

#include <stdbool.h>

#include "agent/agent.h"
#include "journal/trace.h"

/*
 * Judges one recorded call by itself: what it was for (role), whether a trainer may learn from its
 * tokens (trainable), and why not (findings; docs/findings.md). Pure: any reader of the evidence
 * comes to the same. Give judge_call to a trace_source with a struct judge as its argument.
 */
struct judge {
    const struct agent *agent; /* Tells the agent's calls apart; NULL: all are the agent's own. */
    bool logprobs_processed;   /* The engine's log-probabilities are those it sampled from. */
};

/* A trace_judge_fn; `judge` is a const struct judge *. */
int judge_call(void *judge, const struct trace_call *call, struct trace_judgement *judgement,
               struct err *err);

#endif
