/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_TOOL_ANSWER_H
#define SNAFFLE_SERVER_TOOL_ANSWER_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* A rollout's result as a call gives it: the text, and the same as a JSON string. */
struct answer {
    struct buf text;
    struct buf quoted;
};

struct answer_options {
    const char *dir; /* The rollout's folder, where its trace stands. NULL: none. */
    bool include_prompt_ids;
    size_t bytes_max; /* Of a whole answer with the quoted text twice; 0: TOOL_ANSWER_MAX. */
};

/*
 * Changes `result`: adds the prompt ids, and cuts what is too large. Token arrays go first, those
 * of auxiliary and discarded turns, then those of the oldest; then whole turns from the oldest. The
 * finding answer_cut says how many and where all of it stands.
 */
int answer_make(json_t *result, const struct answer_options *o, struct answer *out,
                struct err *err) CHECK_RESULT;
void answer_deinit(struct answer *a);

/* What is known of a rollout that began and left no result. */
struct answer_known {
    const char *task_id;
    const char *mode;
    const char *run;
    const char *rollout;
    const char *backend;
    const char *agent;
    const char *model;
    double started; /* Seconds since 1970. */
};

/* A RolloutResult that says why. The caller owns it; NULL: no memory. */
json_t *answer_without_result(const struct answer_known *k, const struct err *why);

int answer_add_finding(json_t *result, const char *code, const char *detail,
                       struct err *err) CHECK_RESULT;

#endif
