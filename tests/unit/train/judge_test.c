/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/judge.h"

#include "base/json.h"
#include "tests/testing.h"

/* Title calls have no tools; whatever has a parent is a sub-agent's. */
static enum agent_call classify(const json_t *request, struct sv session, struct sv parent) {
    (void)session;
    if (parent.n > 0) {
        return AGENT_CALL_SUBAGENT;
    }
    return json_object_get(request, "tools") ? AGENT_CALL_MAIN : AGENT_CALL_TITLE;
}

static const struct agent agent = {.name = "test", .classify = classify};

#define NEUTRAL "{\"temperature\":1,\"top_p\":1,\"top_k\":-1}"

struct call {
    const char *request;
    const char *parent;
    const char *end;
    const char *finish_reason; /* NULL: null. */
    const char *sampling;
    const char *prompt_ids, *ids, *logps, *usage;
    const char *evidence; /* A finding that was there before. */
};

static const struct call good = {
    .request = "{\"tools\":[{}]}",
    .end = "complete",
    .finish_reason = "stop",
    .sampling = NEUTRAL,
    .prompt_ids = "[1,2]",
    .ids = "[7,8]",
    .logps = "[-0.5,0]",
    .usage = "{\"completion_tokens\":2}",
};

/* "role trainable code code ...". */
static char *judged(const struct call *c, bool processed) {
    json_t *intent = json_pack("{s:{s:o}, s:s?}", "sampling", "sent",
                               c->sampling ? json_loads(c->sampling, 0, NULL) : json_null(),
                               "agent_parent", c->parent);
    json_t *result = json_pack("{s:s, s:s?}", "end", c->end, "finish_reason", c->finish_reason);
    struct trace_call call = {
        .intent = intent,
        .result = result,
        .request = sv_from(c->request),
        .prompt_token_ids = sv_from(c->prompt_ids),
        .completion_token_ids = sv_from(c->ids),
        .per_token_logps = sv_from(c->logps),
        .usage = sv_from(c->usage),
    };
    struct judge judge = {.agent = &agent, .logprobs_processed = processed};
    struct trace_judgement j = {.role = "agent", .trainable = -1, .findings = json_array()};
    struct err err = {0};
    if (c->evidence) {
        json_array_append_new(j.findings, json_string(c->evidence));
    }
    assert_ok(judge_call(&judge, &call, &j, &err), &err);
    struct buf text = {0};
    assert_int_equal(buf_addf(&text, "%s %d", j.role, j.trainable), 0);
    size_t i;
    json_t *code;
    json_array_foreach(j.findings, i, code) {
        assert_int_equal(buf_addf(&text, " %s", json_string_value(code)), 0);
    }
    json_decref(j.findings);
    json_decref(intent);
    json_decref(result);
    return buf_take(&text);
}

static void assert_judged(const struct call *c, bool processed, const char *want) {
    char *got = judged(c, processed);
    assert_string_equal(got, want);
    free(got);
}

static void a_whole_call_of_the_agent_is_trainable(void **state) {
    (void)state;
    assert_judged(&good, false, "agent 1");
}

static void calls_for_a_title_are_auxiliary_and_not_trained(void **state) {
    (void)state;
    struct call c = good;
    c.request = "{\"messages\":[]}";
    assert_judged(&c, false, "auxiliary 0");
    c = good;
    c.parent = "ses_1";
    assert_judged(&c, false, "agent 1 subagent");
}

static void an_answer_the_agent_did_not_wait_for_is_discarded(void **state) {
    (void)state;
    struct call c = good;
    c.end = "client_abort";
    c.finish_reason = NULL;
    assert_judged(&c, false, "discarded 0 abandoned not_complete");
    c.finish_reason = "tool_calls"; /* It had all that matters. */
    assert_judged(&c, false, "agent 0 not_complete");
}

static void each_thing_that_is_missing_has_its_code(void **state) {
    (void)state;
    struct call c = good;
    c.prompt_ids = NULL;
    assert_judged(&c, false, "agent 0 no_prompt_ids");
    c = good;
    c.ids = "[]";
    assert_judged(&c, false, "agent 0 no_sampled_ids");
    c = good;
    c.logps = "null";
    assert_judged(&c, false, "agent 0 no_logprobs");
    c = good;
    c.ids = "[7,-1]";
    assert_judged(&c, false, "agent 0 bad_token_id");
    c.ids = "[7,\"8\"]";
    assert_judged(&c, false, "agent 0 bad_token_id");
    c = good;
    c.logps = "[-0.5]";
    assert_judged(&c, false, "agent 0 logprob_misalign");
    c.logps = "[-0.5,null]";
    assert_judged(&c, false, "agent 0 null_logprob");
    c.logps = "[-0.5,0.25]";
    assert_judged(&c, false, "agent 0 positive_logprob");
    c = good;
    c.usage = "{\"completion_tokens\":3}";
    assert_judged(&c, false, "agent 0 usage_mismatch");
    c.usage = NULL;
    assert_judged(&c, false, "agent 1");
    c = good;
    c.finish_reason = "length";
    assert_judged(&c, false, "agent 1 truncated_turn");
}

static void evidence_that_is_not_whole_trains_nobody_and_is_not_told_twice(void **state) {
    (void)state;
    struct call c = good;
    c.evidence = "capture_limit";
    assert_judged(&c, false, "agent 0 capture_limit");
    c.evidence = "empty_completion"; /* Says nothing of the tokens. */
    assert_judged(&c, false, "agent 1 empty_completion");
    c.evidence = "no_logprobs";
    c.logps = NULL;
    assert_judged(&c, false, "agent 0 no_logprobs");
}

static void
log_probabilities_before_sampling_are_trainable_only_if_that_changes_nothing(void **state) {
    (void)state;
    static const char *const biased[] = {
        "{}",
        "{\"temperature\":0.7,\"top_p\":1,\"top_k\":-1}",
        "{\"temperature\":1,\"top_p\":0.95,\"top_k\":-1}",
        "{\"temperature\":1,\"top_p\":1,\"top_k\":40}",
        "{\"temperature\":1,\"top_p\":1}",
        "{\"temperature\":1,\"top_p\":1,\"top_k\":0,\"min_p\":0.05}",
        "{\"temperature\":1,\"top_p\":1,\"top_k\":0,\"presence_penalty\":0.1}",
        "{\"temperature\":1,\"top_p\":1,\"top_k\":0,\"logit_bias\":{\"5\":1}}",
        "{\"temperature\":\"1\",\"top_p\":1,\"top_k\":0}",
        NULL,
    };
    for (size_t i = 0; i < sizeof biased / sizeof *biased; i++) {
        struct call c = good;
        c.sampling = biased[i];
        assert_judged(&c, false, "agent 0 raw_logprobs");
        assert_judged(&c, true, "agent 1");
    }
    struct call c = good;
    c.sampling = "{\"temperature\":1.0,\"top_p\":1,\"top_k\":0,\"min_p\":0,\"logit_bias\":{}}";
    assert_judged(&c, false, "agent 1");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_whole_call_of_the_agent_is_trainable),
    cmocka_unit_test(calls_for_a_title_are_auxiliary_and_not_trained),
    cmocka_unit_test(an_answer_the_agent_did_not_wait_for_is_discarded),
    cmocka_unit_test(each_thing_that_is_missing_has_its_code),
    cmocka_unit_test(evidence_that_is_not_whole_trains_nobody_and_is_not_told_twice),
    cmocka_unit_test(log_probabilities_before_sampling_are_trainable_only_if_that_changes_nothing),
};

RUN_TESTS(tests)
