/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/turns.h"

#include "tests/testing.h"

static const char good[] =
    "{\"turn\":1,\"role\":\"agent\",\"trainable\":true,\"end\":\"complete\",\"status\":200,"
    "\"finish_reason\":\"stop\",\"completion_tokens\":[\"a\",\"b\"],\"completion_token_ids\":[5,6],"
    "\"per_token_logps\":[-0.5,-1.25],\"prompt_token_ids\":[1,2,3],\"latency_s\":0.25,"
    "\"timestamp\":1760000000.5,\"usage\":{\"completion_tokens\":2},\"model\":\"m\","
    "\"findings\":[\"raw_logprobs\"]}";
static const char failed[] =
    "{\"turn\":2,\"role\":\"agent\",\"trainable\":false,\"end\":\"error\",\"status\":502,"
    "\"finish_reason\":null,\"completion_tokens\":null,\"completion_token_ids\":null,"
    "\"per_token_logps\":[null],\"prompt_token_ids\":null,\"latency_s\":1,\"timestamp\":1760000001,"
    "\"upstream_status\":503,\"upstream_error\":\"busy\\nsecond line\",\"usage\":null,"
    "\"findings\":[\"not_complete\",\"raw_logprobs\"]}";

static void a_turn_has_the_references_fields_and_ours(void **state) {
    (void)state;
    struct err err = {0};
    struct turns t;
    assert_ok(turns_init(&t, &err), &err);
    assert_ok(turns_add(&t, sv_from(good), &err), &err);
    json_t *turn = json_array_get(t.list, 0);
    char *text = json_dumps(turn, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(
        text, "{\"completion_token_ids\":[5,6],\"completion_tokens\":[\"a\",\"b\"],"
              "\"finish_reason\":\"stop\",\"latency_s\":0.25,\"n_prompt\":3,"
              "\"per_token_logps\":[-0.5,-1.25],\"role\":\"agent\",\"timestamp\":1760000000.5,"
              "\"trainable\":true,\"turn\":1,\"upstream_error\":null,\"upstream_status\":null}");
    free(text);
    assert_string_equal(turns_level(&t), "tokens");
    assert_int_equal(t.completion_tokens, 2);
    turns_deinit(&t);
}

static void a_failed_call_has_empty_lists_and_says_why_on_one_line(void **state) {
    (void)state;
    struct err err = {0};
    struct turns t;
    assert_ok(turns_init(&t, &err), &err);
    assert_ok(turns_add(&t, sv_from(good), &err), &err);
    assert_ok(turns_add(&t, sv_from(failed), &err), &err);
    json_t *turn = json_array_get(t.list, 1);
    assert_int_equal(json_array_size(json_object_get(turn, "completion_token_ids")), 0);
    assert_true(json_is_array(json_object_get(turn, "per_token_logps")));
    assert_int_equal(json_array_size(json_object_get(turn, "per_token_logps")), 0);
    assert_int_equal(json_integer_value(json_object_get(turn, "upstream_status")), 503);
    assert_non_null(strstr(buf_cstr(&t.log), " call 2 ? 502 error: 0 tokens"));
    assert_non_null(strstr(buf_cstr(&t.log), ": busy\n"));
    assert_int_equal(json_integer_value(json_object_get(t.findings, "raw_logprobs")), 2);
    assert_string_equal(turns_level(&t), "tokens"); /* A failed call says nothing of the engine. */
    turns_deinit(&t);
}

static void what_is_missing_in_a_list_is_left_out(void **state) {
    (void)state;
    struct err err = {0};
    struct turns t;
    assert_ok(turns_init(&t, &err), &err);
    assert_ok(turns_add(&t,
                        SV("{\"turn\":1,\"completion_tokens\":[\"a\",null],"
                           "\"completion_token_ids\":[null,7],\"per_token_logps\":[-1,null]}"),
                        &err),
              &err);
    json_t *turn = json_array_get(t.list, 0);
    static const char *const lists[] = {"completion_tokens", "completion_token_ids",
                                        "per_token_logps"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_array_size(json_object_get(turn, lists[i])), 1);
    }
    turns_deinit(&t);
}

static void sampled_ids_alone_are_not_level_tokens(void **state) {
    (void)state;
    struct err err = {0};
    struct turns t;
    assert_ok(turns_init(&t, &err), &err);
    assert_ok(turns_add(&t,
                        SV("{\"turn\":1,\"role\":\"agent\",\"end\":\"complete\","
                           "\"completion_token_ids\":[5,6],\"per_token_logps\":[-0.5,-1.25],"
                           "\"prompt_token_ids\":null}"),
                        &err),
              &err);
    assert_string_equal(turns_level(&t), "logprobs");
    turns_deinit(&t);
}

static void no_answer_has_no_level(void **state) {
    (void)state;
    struct err err = {0};
    struct turns t;
    assert_ok(turns_init(&t, &err), &err);
    assert_null(turns_level(&t));
    assert_err(turns_add(&t, SV("not json"), &err), ERR_CORRUPT, &err, "no JSON");
    turns_deinit(&t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_turn_has_the_references_fields_and_ours),
    cmocka_unit_test(a_failed_call_has_empty_lists_and_says_why_on_one_line),
    cmocka_unit_test(what_is_missing_in_a_list_is_left_out),
    cmocka_unit_test(sampled_ids_alone_are_not_level_tokens),
    cmocka_unit_test(no_answer_has_no_level),
};

RUN_TESTS(tests)
