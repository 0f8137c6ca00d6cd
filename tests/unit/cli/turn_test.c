/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include "base/json.h"
#include "cli/turn.h"

static json_t *parsed(const char *text) {
    json_t *value = NULL;
    struct err err = {0};
    assert_ok(json_parse(sv_from(text), "test", &value, &err), &err);
    return value;
}

static void ids_count_before_texts_and_usage(void **state) {
    struct turn t;
    (void)state;
    AUTO_JSON json_t *line =
        parsed("{\"turn\":2,\"role\":\"agent\",\"finish_reason\":\"stop\",\"latency_s\":0.5,"
               "\"prompt_token_ids\":[1,2,3],\"completion_token_ids\":[4,5],"
               "\"per_token_logps\":[-0.5,-1.5],\"usage\":{\"prompt_tokens\":9,"
               "\"completion_tokens\":9},\"findings\":[\"a\",\"b\"]}");
    turn_read(line, &t);
    assert_int_equal(t.number, 2);
    assert_int_equal(t.n_prompt, 3);
    assert_int_equal(t.n_completion, 2);
    assert_int_equal(t.n_logps, 2);
    char text[32];
    turn_mean_logp(t.logp_sum, t.n_logps, text);
    assert_string_equal(text, "-1.000");
    turn_findings(&t, text, sizeof(text));
    assert_string_equal(text, "a b");
}

static void what_the_engine_did_not_give_is_unknown(void **state) {
    struct turn t;
    char text[32];
    (void)state;
    AUTO_JSON json_t *line = parsed("{\"turn\":1,\"end\":\"client_abort\",\"finish_reason\":null,"
                                    "\"prompt_token_ids\":null,\"per_token_logps\":[null]}");
    turn_read(line, &t);
    assert_int_equal(t.n_prompt, -1);
    assert_int_equal(t.n_completion, -1);
    assert_string_equal(t.finish, "client_abort");
    turn_mean_logp(t.logp_sum, t.n_logps, text);
    assert_string_equal(text, "-");
}

static void usage_stands_in_for_missing_ids(void **state) {
    struct turn t;
    (void)state;
    AUTO_JSON json_t *line = parsed("{\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4},"
                                    "\"completion_tokens\":[]}");
    turn_read(line, &t);
    assert_int_equal(t.n_prompt, 9);
    assert_int_equal(t.n_completion, 4);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ids_count_before_texts_and_usage),
    cmocka_unit_test(what_the_engine_did_not_give_is_unknown),
    cmocka_unit_test(usage_stands_in_for_missing_ids),
};

RUN_TESTS(tests)
