/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever an agent and an engine wrote: a call that is judged trainable has prompt ids, ids, and
 * as many log-probabilities, each finite, above the floor and not above 0. */
#include <stdint.h>

#include "base/json.h"
#include "base/mem.h"
#include "train/judge.h"
#include "train/tokens.h"

/* The call's values stand one a line. */
static struct sv next(struct sv *rest) {
    size_t n = sv_find(*rest, SV("\n"));
    struct sv line = {rest->p, n == (size_t)-1 ? rest->n : n};
    *rest = sv_cut(*rest, line.n + 1);
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv rest = {(const char *)data, size};
    struct trace_call call = {0};
    struct sv *const values[] = {&call.request,
                                 &call.response,
                                 &call.prompt_token_ids,
                                 &call.completion_token_ids,
                                 &call.per_token_logps,
                                 &call.logprobs,
                                 &call.usage};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        *values[i] = next(&rest);
    }
    AUTO_JSON json_t *intent = json_object();
    AUTO_JSON json_t *result = json_pack("{s:s, s:s}", "end", "complete", "finish_reason", "stop");
    AUTO_JSON json_t *findings = json_array();
    struct trace_judgement j = {.role = "agent", .trainable = -1, .findings = findings};
    struct tokens t;
    call.intent = intent;
    call.result = result;
    BUG_IF(judge_call(&(struct judge){.logprobs_processed = size % 2}, &call, &j, NULL) < 0);
    tokens_of(&call, &t);
    BUG_IF(j.trainable && (t.prompt_ids == 0 || t.ids == 0 || t.ids != t.logps || t.bad_ids ||
                           t.null_logp || t.nonfinite_logp || t.positive_logp || t.floored_logp));
    return 0;
}
