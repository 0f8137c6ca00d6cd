/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/capture.h"

#include "gateway/answer.h"
#include "gateway/evidence.h"
#include "tests/testing.h"

static void feed(struct capture *k, const char *text) {
    struct chunk c = {0};
    assert_int_equal(chunk_parse(&c, sv_from(text)), 0);
    assert_int_equal(capture_add(k, &c), 0);
    chunk_deinit(&c);
}

static void feed_tool(struct capture *k, const char *fragment) {
    AUTO_BUF struct buf b = {0};
    assert_int_equal(
        buf_addf(&b, "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[%s]}}]}", fragment), 0);
    feed(k, buf_cstr(&b));
}

static void assert_tool(const struct capture *k, size_t i, const char *id, const char *name,
                        const char *arguments) {
    assert_true(i < k->choices[0].n_tools);
    const struct capture_tool *t = &k->choices[0].tools[i];
    assert_string_equal(buf_cstr(&t->id), id);
    assert_string_equal(buf_cstr(&t->name), name);
    assert_string_equal(buf_cstr(&t->arguments), arguments);
}

static void fragments_of_tool_calls_join_by_index(void **state) {
    struct capture k = {0};
    (void)state;
    feed_tool(&k, "{\"index\":0,\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"ls\","
                  "\"arguments\":\"\"}}");
    feed_tool(&k, "{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"cat\",\"arguments\":\"{\"}}");
    feed_tool(&k, "{\"index\":0,\"id\":\"\",\"function\":{\"arguments\":\"{\\\"p\\\"\"}}");
    feed_tool(&k, "{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"cat\",\"arguments\":\"}\"}},"
                  "{\"index\":0,\"function\":{\"arguments\":\":1}\"}}");
    assert_int_equal(k.choices[0].n_tools, 2);
    assert_tool(&k, 0, "a", "ls", "{\\\"p\\\":1}");
    assert_tool(&k, 1, "b", "cat", "{}");
    capture_deinit(&k);
}

static void calls_without_an_index_part_at_their_ids(void **state) {
    struct capture k = {0};
    (void)state;
    feed_tool(&k, "{\"id\":\"a\",\"function\":{\"name\":\"x\",\"arguments\":\"1\"}}");
    feed_tool(&k, "{\"function\":{\"arguments\":\"2\"}}");
    feed_tool(&k, "{\"id\":\"a\",\"function\":{\"arguments\":\"3\"}}");
    feed_tool(&k, "{\"id\":\"b\",\"function\":{\"name\":\"y\",\"arguments\":\"4\"}}");
    assert_int_equal(k.choices[0].n_tools, 2);
    assert_tool(&k, 0, "a", "x", "123");
    assert_tool(&k, 1, "b", "y", "4");
    capture_reset(&k);
    /* A name in pieces, and an index that begins at 1. */
    feed_tool(&k, "{\"index\":1,\"id\":\"c\",\"function\":{\"name\":\"web\"}}");
    feed_tool(&k, "{\"index\":1,\"function\":{\"name\":\"fetch\",\"arguments\":\"{}\"}}");
    assert_int_equal(k.choices[0].n_tools, 1);
    assert_tool(&k, 0, "c", "webfetch", "{}");
    capture_deinit(&k);
}

static void texts_join_in_the_engine_s_spelling(void **state) {
    struct capture k = {0};
    AUTO_BUF struct buf out = {0};
    (void)state;
    feed(&k, "{\"id\":\"i\",\"created\":5,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":"
             "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"w\\u00e9\"}}]}");
    feed(&k,
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ud83d\",\"reasoning\":\"r\"}}]}");
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ude00\"}},{\"index\":1,"
             "\"delta\":{\"content\":\"two\"},\"finish_reason\":\"length\"}]}");
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":"
             "{\"completion_tokens\":4}}");
    assert_int_equal(k.n_finished, 2);
    assert_int_equal(answer_put(&k, &out), 0);
    assert_string_equal(
        buf_cstr(&out),
        "{\"id\":\"i\",\"object\":\"chat.completion\",\"created\":5,\"model\":\"m\",\"choices\":["
        "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"\\ud83d\\ude00\","
        "\"reasoning\":\"r\",\"reasoning_content\":\"w\\u00e9\"},\"finish_reason\":\"stop\"},"
        "{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"two\"},"
        "\"finish_reason\":\"length\"}],\"usage\":{\"completion_tokens\":4}}");
    assert_int_equal(capture_completion_tokens(&k), 4);
    capture_deinit(&k);
}

static void ids_come_from_lists_else_from_the_rows(void **state) {
    struct capture k = {0};
    size_t n;
    (void)state;
    feed(&k,
         "{\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"token\":"
         "\"token_id:15339\",\"logprob\":-0.3},{\"token\":\"token_id:1917\",\"logprob\":-1}]}}]}");
    assert_string_equal(buf_cstr(capture_ids(&k.choices[0], &n)), "[15339,1917]");
    assert_int_equal(n, 2);
    assert_string_equal(buf_cstr(&k.choices[0].logps), "[-0.3,-1]");
    capture_reset(&k);
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"id\":77,"
             "\"token\":\"a\",\"logprob\":-0.3}]}}]}");
    assert_string_equal(buf_cstr(capture_ids(&k.choices[0], &n)), "[77]");
    capture_reset(&k);
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[1, 2]}]}");
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[]}]}");
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[3]}]}");
    assert_string_equal(buf_cstr(capture_ids(&k.choices[0], &n)), "[1,2,3]");
    assert_int_equal(n, 3);
    capture_reset(&k);
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"token\":"
             "\"token_id:x\",\"logprob\":-0.3}]}}]}");
    (void)capture_ids(&k.choices[0], &n);
    assert_int_equal(n, 0);
    capture_deinit(&k);
}

static void assert_findings(const struct capture *k, enum call_end end, const char *want) {
    AUTO_BUF struct buf out = {0};
    const struct record_facts f = {.end = end};
    assert_int_equal(evidence_put(k, &f, &out), 0);
    assert_string_equal(buf_cstr(&out), want);
}

#define CHOICE(fields) "{\"choices\":[{\"index\":0," fields "}]"
#define GOOD                                                                                       \
    "\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\",\"token_ids\":[5,6],\"logprobs\":"   \
    "{\"content\":[{\"token\":\"a\",\"logprob\":-1},{\"token\":\"b\",\"logprob\":-0.0}]}"

static void findings_name_what_does_not_agree(void **state) {
    static const struct {
        const char *text;
        const char *findings;
    } rows[] = {
        {CHOICE(GOOD) ",\"prompt_token_ids\":[1],\"usage\":{\"completion_tokens\":2}}", ""},
        {CHOICE(GOOD) ",\"prompt_token_ids\":[1],\"usage\":{\"completion_tokens\":3}}",
         "\"usage_mismatch\""},
        {CHOICE(GOOD) "}", "\"no_prompt_ids\""},
        {CHOICE("\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"") "}",
         "\"no_prompt_ids\",\"no_sampled_ids\",\"no_logprobs\",\"truncated_turn\""},
        {CHOICE("\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\",\"token_ids\":[5],"
                "\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-1},{\"token\":\"b\","
                "\"logprob\":-2}]}") ",\"prompt_token_ids\":[1]}",
         "\"logprob_misalign\""},
        {CHOICE("\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\",\"token_ids\":[5, 6],"
                "\"logprobs\":{\"content\":[{\"token\":\"token_id:5\",\"logprob\":-1},{\"token\":"
                "\"token_id:7\",\"logprob\":-2}]}") ",\"prompt_token_ids\":[1]}",
         "\"logprob_misalign\""},
        {CHOICE("\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\",\"token_ids\":[5,6,7,8],"
                "\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":null},{\"token\":\"b\","
                "\"logprob\":NaN},{\"logprob\":0.1},{\"logprob\":1e-3}]}") ",\"prompt_token_ids\":["
                                                                           "1]}",
         "\"null_logprob\",\"nonfinite_logprob\",\"positive_logprob\""},
        {CHOICE("\"delta\":{},\"token_ids\":[5],\"logprobs\":{\"content\":[{\"token\":\"a\","
                "\"logprob\":-1}]}") ",\"prompt_token_ids\":[1]}",
         "\"empty_completion\",\"no_finish_reason\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct capture k = {0};
        feed(&k, rows[i].text);
        assert_findings(&k, END_COMPLETE, rows[i].findings);
        capture_deinit(&k);
    }
}

static void an_answer_without_a_choice_is_told(void **state) {
    struct capture k = {0};
    (void)state;
    feed(&k, "{\"choices\":[],\"prompt_token_ids\":[1]}");
    assert_findings(&k, END_COMPLETE,
                    "\"no_choices\",\"no_sampled_ids\",\"no_logprobs\",\"no_finish_reason\"");
    assert_findings(&k, END_ERROR, ""); /* The error itself says more. */
    capture_deinit(&k);
}

static void assert_has(const struct capture *k, const char *code, bool want) {
    AUTO_BUF struct buf out = {0};
    const struct record_facts f = {.end = END_COMPLETE};
    assert_int_equal(evidence_put(k, &f, &out), 0);
    if ((strstr(buf_cstr(&out), code) != NULL) != want) {
        fail_msg("%s: %s", code, buf_cstr(&out));
    }
}

#define TOOL(fields) "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{" fields "}]}}]}"

static void tool_calls_with_wrong_numbers_are_told(void **state) {
    static const struct {
        const char *chunks[3];
        bool odd;
    } rows[] = {
        {{TOOL("\"index\":0,\"id\":\"a\""), TOOL("\"index\":0"), TOOL("\"index\":1,\"id\":\"b\"")},
         false},
        {{TOOL("\"index\":0,\"id\":\"a\""), TOOL("\"index\":0,\"id\":\"a\"")}, false},
        {{TOOL("\"id\":\"a\""), TOOL("\"id\":\"b\"")}, false}, /* None: as whole answers are. */
        {{TOOL("\"index\":1,\"id\":\"a\"")}, true},            /* Begins at 1. */
        {{TOOL("\"index\":0,\"id\":\"a\""), TOOL("\"index\":2,\"id\":\"b\"")}, true}, /* A gap. */
        {{TOOL("\"index\":0,\"id\":\"a\""), TOOL("\"index\":0,\"id\":\"b\"")}, true}, /* Merged. */
        {{TOOL("\"index\":1,\"id\":\"a\""), TOOL("\"index\":0,\"id\":\"b\"")}, true}, /* Turned. */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct capture k = {0};
        for (size_t j = 0; j < 3 && rows[i].chunks[j]; j++) {
            feed(&k, rows[i].chunks[j]);
        }
        assert_has(&k, "\"tool_index\"", rows[i].odd);
        capture_deinit(&k);
    }
}

#define ENDED(n)                                                                                   \
    "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\","         \
    "\"logprobs\":{\"content\":[{\"id\":5,\"token\":\"a\",\"logprob\":-1}]}}],\"usage\":{"         \
    "\"completion_tokens\":" n "}}"

static void a_stop_token_that_is_counted_but_not_told_is_no_mismatch(void **state) {
    struct capture k = {0};
    (void)state;
    feed(&k, ENDED("2"));
    assert_has(&k, "\"stop_token_absent\"", true);
    assert_has(&k, "\"usage_mismatch\"", false);
    capture_reset(&k);
    feed(&k, ENDED("1"));
    assert_has(&k, "\"stop_token_absent\"", false);
    assert_has(&k, "\"usage_mismatch\"", false);
    capture_reset(&k);
    feed(&k, ENDED("3"));
    assert_has(&k, "\"stop_token_absent\"", false);
    assert_has(&k, "\"usage_mismatch\"", true);
    capture_deinit(&k);
}

static void each_value_that_is_no_number_is_told_from_one_that_is_missing(void **state) {
    static const struct {
        const char *value;
        bool nonfinite, null;
    } rows[] = {{"NaN", true, false},  {"Infinity", true, false}, {"-Infinity", true, false},
                {"null", false, true}, {"\"-1\"", false, true},   {"-0.5", false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct capture k = {0};
        AUTO_BUF struct buf text = {0};
        assert_int_equal(buf_addf(&text,
                                  "{\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{"
                                  "\"content\":[{\"token\":\"a\",\"logprob\":%s}]}}]}",
                                  rows[i].value),
                         0);
        feed(&k, buf_cstr(&text));
        assert_has(&k, "\"nonfinite_logprob\"", rows[i].nonfinite);
        assert_has(&k, "\"null_logprob\"", rows[i].null);
        capture_deinit(&k);
    }
}

static void what_was_asked_for_and_did_not_come_is_told(void **state) {
    struct capture k = {0};
    (void)state;
    feed(&k,
         "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}");
    for (int asked = 0; asked < 2; asked++) {
        AUTO_BUF struct buf out = {0};
        const struct record_facts f = {.end = END_COMPLETE, .wanted = asked ? ASK_ANY_IDS : 0};
        assert_int_equal(evidence_put(&k, &f, &out), 0);
        assert_int_equal(strstr(buf_cstr(&out), "\"asked_but_absent\"") != NULL, asked);
    }
    capture_deinit(&k);
}

static void what_could_not_be_read_or_kept_is_told(void **state) {
    const struct record_facts too_big = {.end = END_COMPLETE, .answer_too_big = true};
    AUTO_BUF struct buf out = {0};
    struct capture k = {0};
    (void)state;
    feed(&k, CHOICE(GOOD) "}");
    assert_has(&k, "\"unparsed_events\"", false);
    assert_has(&k, "\"capture_limit\"", false);
    k.n_bad_events = 1;
    assert_has(&k, "\"unparsed_events\"", true);
    assert_int_equal(evidence_put(&k, &too_big, &out), 0);
    assert_non_null(strstr(buf_cstr(&out), "\"capture_limit\""));
    k.bytes = CAPTURE_BYTES_MAX - 1; /* As after so long an answer. */
    feed(&k, CHOICE(GOOD) "}");
    assert_has(&k, "\"capture_limit\"", true);
    assert_int_equal(k.choices[0].n_rows, 4); /* Counted, if not kept. */
    capture_deinit(&k);
}

static void more_than_one_choice_is_told(void **state) {
    struct capture k = {0};
    (void)state;
    feed(&k, "{\"choices\":[{\"index\":0,\"delta\":{}},{\"index\":1,\"delta\":{}}]}");
    assert_has(&k, "\"several_choices\"", true);
    capture_deinit(&k);
}

static void rows_that_are_not_finite_stay_valid_json(void **state) {
    struct capture k = {0};
    (void)state;
    feed(&k,
         "{\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"token\":\"NaN\","
         "\"logprob\":-Infinity,\"top_logprobs\":[{\"token\":\"I\",\"logprob\":NaN}]}]}}]}");
    assert_string_equal(buf_cstr(&k.choices[0].rows),
                        "[{\"token\":\"NaN\",\"logprob\":null,\"top_logprobs\":[{\"token\":\"I\","
                        "\"logprob\":null}]}]");
    assert_string_equal(buf_cstr(&k.choices[0].logps), "[null]");
    assert_string_equal(buf_cstr(&k.choices[0].tokens), "[\"NaN\"]");
    assert_int_equal(k.choices[0].n_null_logps, 1);
    capture_deinit(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fragments_of_tool_calls_join_by_index),
        cmocka_unit_test(calls_without_an_index_part_at_their_ids),
        cmocka_unit_test(texts_join_in_the_engine_s_spelling),
        cmocka_unit_test(ids_come_from_lists_else_from_the_rows),
        cmocka_unit_test(findings_name_what_does_not_agree),
        cmocka_unit_test(an_answer_without_a_choice_is_told),
        cmocka_unit_test(tool_calls_with_wrong_numbers_are_told),
        cmocka_unit_test(a_stop_token_that_is_counted_but_not_told_is_no_mismatch),
        cmocka_unit_test(each_value_that_is_no_number_is_told_from_one_that_is_missing),
        cmocka_unit_test(what_could_not_be_read_or_kept_is_told),
        cmocka_unit_test(more_than_one_choice_is_told),
        cmocka_unit_test(what_was_asked_for_and_did_not_come_is_told),
        cmocka_unit_test(rows_that_are_not_finite_stay_valid_json),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
