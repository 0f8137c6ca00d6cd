/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/judge.h"

#include "base/json.h"
#include "tests/testing.h"

/* Title calls have no tools and no messages, summaries have messages; whatever has a parent is a
 * sub-agent's. */
static enum agent_call classify(const json_t *request, struct sv session, struct sv parent) {
    (void)session;
    if (parent.n > 0) {
        return AGENT_CALL_SUBAGENT;
    }
    if (json_object_get(request, "tools")) {
        return AGENT_CALL_MAIN;
    }
    return json_array_size(json_object_get(request, "messages")) > 0 ? AGENT_CALL_SUMMARY
                                                                     : AGENT_CALL_TITLE;
}

static const struct agent agent = {.name = "test", .classify = classify};

#define NEUTRAL "\"temperature\":1,\"top_p\":1,\"top_k\":-1"
#define ASKED(sampling) "{\"tools\":[{}]," sampling "}"

struct call {
    const char *request;
    const char *parent;
    const char *end;
    const char *finish_reason; /* NULL: null. */
    const char *prompt_ids, *ids, *logps, *usage;
    const char *rows, *response;
    const char *evidence; /* A finding that was there before. */
};

static const struct call good = {
    .request = ASKED(NEUTRAL),
    .end = "complete",
    .finish_reason = "stop",
    .prompt_ids = "[1,2]",
    .ids = "[7,8]",
    .logps = "[-0.5,-0.1]",
    .usage = "{\"prompt_tokens\":2,\"completion_tokens\":2}",
};

/* "role trainable code code ...". */
static char *judged(const struct call *c, bool processed) {
    json_t *intent = json_pack("{s:s?}", "agent_parent", c->parent);
    json_t *result = json_pack("{s:s?, s:s?}", "end", c->end, "finish_reason", c->finish_reason);
    struct trace_call call = {
        .intent = intent,
        .result = result,
        .request = sv_from(c->request),
        .prompt_token_ids = sv_from(c->prompt_ids),
        .completion_token_ids = sv_from(c->ids),
        .per_token_logps = sv_from(c->logps),
        .usage = sv_from(c->usage),
        .logprobs = sv_from(c->rows),
        .response = sv_from(c->response),
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
    c.request = "{\"messages\":[]," NEUTRAL "}";
    assert_judged(&c, false, "auxiliary 0 title");
    c.request = "{\"messages\":[\"sum up\"]," NEUTRAL "}";
    assert_judged(&c, false, "auxiliary 0 summary");
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

static void an_answer_that_failed_is_discarded_and_one_under_way_is_not(void **state) {
    (void)state;
    struct call c = good;
    c.end = "upstream_abort";
    assert_judged(&c, false, "discarded 0 not_complete");
    c.end = "error";
    c.finish_reason = c.prompt_ids = c.ids = c.logps = c.usage = NULL;
    assert_judged(&c, false, "discarded 0 not_complete");
    c.end = NULL;
    assert_judged(&c, false, "agent 0 not_complete");
    c = good;
    c.finish_reason = NULL; /* Agents ask again. */
    assert_judged(&c, false, "discarded 0 no_finish_reason");
    c = good;
    c.evidence = "upstream_error_event";
    assert_judged(&c, false, "discarded 0 upstream_error_event");
    c.evidence = "no_choices";
    assert_judged(&c, false, "discarded 0 no_choices");
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
    c.usage = NULL;
    assert_judged(&c, false, "agent 1 no_usage");
    c.usage = "{\"completion_tokens\":null}";
    assert_judged(&c, false, "agent 1 no_usage");
}

static void numbers_that_do_not_agree_are_told_apart(void **state) {
    (void)state;
    struct call c = good;
    c.logps = "[-0.5]"; /* Some chunks came without log-probabilities, */
    assert_judged(&c, false, "agent 0 logprob_misalign logprobs_incomplete");
    c = good;
    c.ids = "[7]"; /* without ids, */
    assert_judged(&c, false, "agent 0 logprob_misalign ids_incomplete usage_mismatch");
    c.logps = "[-0.5]"; /* without both. */
    assert_judged(&c, false, "agent 0 ids_incomplete usage_mismatch");
    c = good;
    c.usage = "{\"completion_tokens\":1}";
    assert_judged(&c, false, "agent 0 usage_mismatch");
    c.usage = "{\"completion_tokens\":2,\"prompt_tokens\":3}";
    assert_judged(&c, false, "agent 0 prompt_usage_mismatch");
    c.usage = "{\"completion_tokens\":3}"; /* llama.cpp; the gateway has seen it. */
    c.evidence = "stop_token_absent";
    assert_judged(&c, false, "agent 1 stop_token_absent");
    c.evidence = "several_choices"; /* Usage counts them all. */
    assert_judged(&c, false, "agent 1 several_choices");
}

static void each_wrong_value_has_its_code(void **state) {
    (void)state;
    static const char *const logps[][2] = {
        {"[-0.5,null]", "null_logprob"},        {"[-0.5,\"-1\"]", "null_logprob"},
        {"[-0.5,0.25]", "positive_logprob"},    {"[-0.5,-9999.0]", "floored_logprob"},
        {"[-0.5,-1e999]", "nonfinite_logprob"}, {NULL, NULL},
    };
    struct call c = good;
    for (size_t i = 0; logps[i][0]; i++) {
        char want[64];
        c.logps = logps[i][0];
        snprintf(want, sizeof want, "agent 0 %s", logps[i][1]);
        assert_judged(&c, false, want);
    }
    c.logps = "[-0.5,0.0]";
    assert_judged(&c, false, "agent 1 certain_tokens");
    c.logps = "[0,0.0]"; /* Where all are, that some are is not said as well. */
    c.evidence = "zero_logprobs";
    assert_judged(&c, false, "agent 0 zero_logprobs");
    c.logps = "[-0.5,null]"; /* What the gateway wrote for a NaN. */
    c.evidence = "nonfinite_logprob";
    assert_judged(&c, false, "agent 0 nonfinite_logprob");
    c = good;
    c.ids = "[7,-1]";
    assert_judged(&c, false, "agent 0 bad_token_id");
    c.ids = "[7,\"8\"]";
    assert_judged(&c, false, "agent 0 bad_token_id");
    c.prompt_ids = "[1,2.5]";
    c.ids = good.ids;
    assert_judged(&c, false, "agent 0 bad_token_id");
}

static void each_reason_for_an_end_has_its_code(void **state) {
    (void)state;
    struct call c = good;
    c.finish_reason = "length";
    assert_judged(&c, false, "agent 1 truncated_turn");
    c.finish_reason = "content_filter";
    assert_judged(&c, false, "agent 1 content_filtered");
    c.finish_reason = "abort";
    assert_judged(&c, false, "agent 0 engine_abort");
    c.finish_reason = "error";
    assert_judged(&c, false, "agent 0 engine_abort");
}

static void values_that_belong_elsewhere_are_found(void **state) {
    (void)state;
    struct call c = good;
    c.rows = "[{\"token\":\"token_id:7\"},{\"token\":\"token_id:9\"}]";
    assert_judged(&c, false, "agent 0 logprob_misalign");
    c.rows = "[{\"token\":\"a\",\"logprob\":-0.5,\"top_logprobs\":[{\"token\":\"a\",\"logprob\":"
             "-2},{\"token\":\"b\",\"logprob\":-3}]},{\"token\":\"b\"}]";
    assert_judged(&c, false, "agent 0 logprob_contradicted");
    c.rows = "[{\"token\":\"a\"},{\"token\":\"b\"}]";
    c.response = "{\"choices\":[{\"message\":{\"content\":\"ac\"}}]}";
    assert_judged(&c, false, "agent 1 text_mismatch");
    c.response = "{\"choices\":[{\"message\":{\"content\":\"ab\"}}]}";
    assert_judged(&c, false, "agent 1");
    c.prompt_ids = "[1]";
    c.ids = "[5,6,5,6,5,6,5,6]";
    c.logps = "[-1,-1,-1,-1,-1,-1,-1,-1]";
    c.usage = "{\"completion_tokens\":8}";
    c.response = NULL;
    c.rows = "[{\"token\":\"a\"},{\"token\":\"b\"},{\"token\":\"c\"},{\"token\":\"d\"},"
             "{\"token\":\"e\"},{\"token\":\"f\"},{\"token\":\"g\"},{\"token\":\"h\"}]";
    assert_judged(&c, false, "agent 0 id_text_mismatch");
}

static void tool_calls_are_looked_at(void **state) {
    (void)state;
#define CALLED(call) "{\"choices\":[{\"message\":{\"tool_calls\":[" call "]}}]}"
    struct call c = good;
    c.response = CALLED("{\"id\":\"c\",\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}");
    assert_judged(&c, false, "agent 1");
    c.response = CALLED("{\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}");
    assert_judged(&c, false, "agent 1 tool_call_no_id");
    c.response = CALLED("{\"id\":\"c\",\"function\":{\"name\":\"\",\"arguments\":\"\"}}");
    assert_judged(&c, false, "agent 1 tool_call_no_id");
    c.response = CALLED("{\"id\":\"c\",\"function\":{\"name\":\"ls\",\"arguments\":\"{\"}}");
    assert_judged(&c, false, "agent 1 tool_arguments_invalid");
}

static void evidence_that_is_not_whole_trains_nobody_and_is_not_told_twice(void **state) {
    (void)state;
    static const char *const fatal[] = {
        "capture_limit",  "encoded_answer",  "part_invalid", "head_invalid",  "record_damaged",
        "intent_missing", "unparsed_events", "tail_missing", "zero_logprobs", "from_the_future"};
    struct call c = good;
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        char want[64];
        c.evidence = fatal[i];
        snprintf(want, sizeof want, "agent 0 %s", fatal[i]);
        assert_judged(&c, false, want);
    }
    c.evidence = "empty_completion"; /* Says nothing of the tokens. */
    assert_judged(&c, false, "agent 1 empty_completion");
    c.evidence = "policy_changed";
    assert_judged(&c, false, "agent 1 policy_changed");
    c.evidence = "no_logprobs";
    c.logps = NULL;
    assert_judged(&c, false, "agent 0 no_logprobs");
}

static void
log_probabilities_before_sampling_are_trainable_only_if_that_changes_nothing(void **state) {
    (void)state;
    struct call c = good;
    c.request = ASKED("\"temperature\":0.7,\"top_p\":1,\"top_k\":-1");
    assert_judged(&c, false, "agent 0 raw_logprobs");
    assert_judged(&c, true, "agent 1");
    c.request = ASKED("\"temperature\":1,\"top_p\":0.95,\"top_k\":-1");
    assert_judged(&c, false, "agent 0 raw_logprobs");
    assert_judged(&c, true, "agent 1 biased_sampling");
    c.request = ASKED("\"x\":\"\\ud83d\"," NEUTRAL); /* What jansson does not hold. */
    assert_judged(&c, false, "agent 1");
}

static void what_rules_tokens_out_is_not_the_policy_in_any_mode(void **state) {
    (void)state;
    struct call c = good;
    c.request = ASKED("\"response_format\":{\"type\":\"json_object\"}," NEUTRAL);
    assert_judged(&c, false, "agent 0 constrained_decoding");
    assert_judged(&c, true, "agent 0 constrained_decoding");
    c.request = ASKED("\"temperature\":0");
    assert_judged(&c, true, "agent 0 greedy_sampling");
    c.request = ASKED("\"n\":2," NEUTRAL);
    assert_judged(&c, false, "agent 1 several_choices");
    c.request = ASKED("\"include_reasoning\":false," NEUTRAL);
    assert_judged(&c, false, "agent 1 reasoning_hidden");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_whole_call_of_the_agent_is_trainable),
    cmocka_unit_test(calls_for_a_title_are_auxiliary_and_not_trained),
    cmocka_unit_test(an_answer_the_agent_did_not_wait_for_is_discarded),
    cmocka_unit_test(an_answer_that_failed_is_discarded_and_one_under_way_is_not),
    cmocka_unit_test(each_thing_that_is_missing_has_its_code),
    cmocka_unit_test(numbers_that_do_not_agree_are_told_apart),
    cmocka_unit_test(each_wrong_value_has_its_code),
    cmocka_unit_test(each_reason_for_an_end_has_its_code),
    cmocka_unit_test(values_that_belong_elsewhere_are_found),
    cmocka_unit_test(tool_calls_are_looked_at),
    cmocka_unit_test(evidence_that_is_not_whole_trains_nobody_and_is_not_told_twice),
    cmocka_unit_test(log_probabilities_before_sampling_are_trainable_only_if_that_changes_nothing),
    cmocka_unit_test(what_rules_tokens_out_is_not_the_policy_in_any_mode),
};

RUN_TESTS(tests)
