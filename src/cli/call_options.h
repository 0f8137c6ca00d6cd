/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_CALL_OPTIONS_H
#define SNAFFLE_CLI_CALL_OPTIONS_H

#include "cli/option.h"
#include "gateway/profile.h"

/* Options of model calls, in the tables of all commands that pass some on. */

#define ENGINE_OPTION                                                                              \
    {                                                                                              \
        "engine", OPTION_WORD, "NAME",                                                             \
            "what the endpoint is (default: told by its host and its answers)", profile_names      \
    }

#define CALL_OPTIONS                                                                               \
    ENGINE_OPTION,                                                                                 \
        {"logprobs-processed", OPTION_SWITCH, NULL,                                                \
         "the endpoint's log-probabilities are those it sampled from (vLLM: --logprobs-mode "      \
         "processed_logprobs), so that turns count as trainable at any temperature",               \
         NULL},                                                                                    \
        {"neutral-sampling", OPTION_SWITCH, NULL,                                                  \
         "sample without truncation and penalties (top_p, top_k, min_p ...) where token ids are "  \
         "captured; the temperature stays the agent's",                                            \
         NULL},                                                                                    \
        {"policy-version", OPTION_TEXT, "TEXT",                                                    \
         "which weights the endpoint runs: stands in the record of each call, unless the "         \
         "endpoint itself says",                                                                   \
         NULL},                                                                                    \
        {"loop-break", OPTION_COUNT, "N",                                                          \
         "refuse a request whose body failed more than N times before (default: 0: never)", NULL}, \
    {                                                                                              \
        "loop-break-s", OPTION_NUMBER, "SECONDS",                                                  \
            "count such failures within this time only (default: 60)", NULL                        \
    }

#endif
