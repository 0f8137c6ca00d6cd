/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/evidence.h"

#include <string.h>

/* One or two tokens may be certain to the last bit; a whole answer is not. */
#define EVIDENCE_ZEROS_MIN 4u

/* The ids that the rows name agree with the engine's list, one by one; as many as both have. */
static bool ids_agree(const struct capture_choice *choice) {
    if (choice->n_ids == 0 || choice->n_row_ids == 0) {
        return true;
    }
    size_t n = choice->ids.len < choice->row_ids.len ? choice->ids.len : choice->row_ids.len;
    return memcmp(choice->ids.data, choice->row_ids.data, n - 1) == 0; /* Without the bracket. */
}

static bool is_misaligned(const struct capture_choice *choice) {
    size_t n;
    (void)capture_ids(choice, &n);
    return n > 0 && choice->n_rows > 0 && (n != choice->n_rows || !ids_agree(choice));
}

static uint64_t count_ids(const struct capture *k) {
    uint64_t have = 0;
    for (size_t i = 0; i < k->n_choices; i++) {
        size_t n;
        (void)capture_ids(&k->choices[i], &n);
        have += n;
    }
    return have;
}

/* llama.cpp tells nothing of the token that ended an answer, but counts it. */
static bool lacks_stop_token(const struct capture *k) {
    uint64_t said;
    return k->has_row_ids_from_engine && k->n_finished > 0 && capture_usage_tokens(k, &said) &&
           said == count_ids(k) + k->n_finished;
}

static bool usage_differs(const struct capture *k) {
    uint64_t said;
    uint64_t have = count_ids(k);
    /* Without ids there is nothing to compare. */
    return have > 0 && capture_usage_tokens(k, &said) && have != said && !lacks_stop_token(k);
}

/* Calls number themselves 0, 1, 2 ..., or, in a whole answer, not at all. */
static bool has_odd_index(const struct capture_choice *c) {
    for (size_t i = 0; i < c->n_tools; i++) {
        long long index = c->tools[i].index;
        if (c->tools[i].joins_two || (index >= 0 && index != (long long)i)) {
            return true;
        }
    }
    return false;
}

static bool is_empty(const struct capture_choice *c) {
    return c->content.len == 0 && c->content_parts.len == 0 && c->reasoning.len == 0 &&
           c->reasoning_content.len == 0 && c->refusal.len == 0 && c->n_tools == 0 &&
           !c->has_function_call;
}

unsigned evidence_absent(const struct capture *k, const struct record_facts *f) {
    const struct capture_choice *choice = k->n_choices > 0 ? &k->choices[0] : NULL;
    size_t n_ids = 0;
    if (!choice || f->end != END_COMPLETE) {
        return 0;
    }
    (void)capture_ids(choice, &n_ids);
    return (n_ids == 0 ? f->wanted & ASK_ANY_IDS : 0) |
           (choice->n_rows == 0 ? f->wanted & ASK_ANY_LOGPROBS : 0);
}

int evidence_put(const struct capture *k, const struct record_facts *f, struct buf *out) {
    static const struct capture_choice none;
    const struct capture_choice *choice = k->n_choices > 0 ? &k->choices[0] : &none;
    size_t n_ids;
    (void)capture_ids(choice, &n_ids);
    bool failed = f->end == END_ERROR;
    const struct {
        bool found;
        const char *code;
    } facts[] = {
        {!failed && k->n_choices == 0, "no_choices"},
        {!failed && k->prompt_ids.len == 0, "no_prompt_ids"},
        {!failed && n_ids == 0, "no_sampled_ids"},
        {!failed && choice->n_rows == 0, "no_logprobs"},
        {is_misaligned(choice), "logprob_misalign"},
        {choice->n_null_logps > choice->n_nonfinite_logps, "null_logprob"},
        {choice->n_nonfinite_logps > 0, "nonfinite_logprob"},
        {choice->n_positive_logps > 0, "positive_logprob"},
        {choice->n_rows >= EVIDENCE_ZEROS_MIN && choice->n_zero_logps == choice->n_rows,
         "zero_logprobs"},
        {evidence_absent(k, f) != 0, "asked_but_absent"},
        {usage_differs(k), "usage_mismatch"},
        {lacks_stop_token(k), "stop_token_absent"},
        {k->n_choices > 1, "several_choices"},
        {has_odd_index(choice), "tool_index"},
        {sv_eq(buf_sv(&choice->finish_reason), SV("\"length\"")), "truncated_turn"},
        {f->end == END_COMPLETE && k->n_choices > 0 && is_empty(choice), "empty_completion"},
        {!failed && choice->finish_reason.len == 0, "no_finish_reason"},
        {!failed && k->error.len > 0, "upstream_error_event"},
        {k->n_bad_events > 0, "unparsed_events"},
        {k->over_limit || f->answer_too_big, "capture_limit"},
        {f->encoded, "encoded_answer"},
        {f->neutralised, "sampling_neutralised"},
        {f->policy_changed, "policy_changed"},
    };
    int rc = 0;
    bool first = true;
    for (size_t i = 0; rc == 0 && i < sizeof facts / sizeof facts[0]; i++) {
        if (facts[i].found) {
            rc = buf_addf(out, "%s\"%s\"", first ? "" : ",", facts[i].code);
            first = false;
        }
    }
    return rc;
}
