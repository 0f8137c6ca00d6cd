/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"

#include "tests/testing.h"

static void a_wrong_type_names_place_field_and_both_types(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_JSON json_t *o = NULL;
    assert_ok(json_parse(SV("{\"agent_s\": \"5\"}"), "t", &o, &err), &err);
    struct json_at at = {o, "task.json: limits"};
    double v = 3;
    assert_err(json_get_number(at, "agent_s", &v, &err), ERR_INPUT, &err,
               "task.json: limits: agent_s: want a number, got a string");
    assert_true(v == 3);
}

static void an_unknown_field_is_answered_with_the_nearest(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_JSON json_t *o = NULL;
    assert_ok(json_parse(SV("{\"instrution\": 1}"), "t", &o, &err), &err);
    const char *const known[] = {"instruction", "setup", NULL};
    assert_err(json_check_fields((struct json_at){o, "task.json"}, known, &err), ERR_INPUT, &err,
               "unknown field 'instrution' (did you mean 'instruction'?)");
}

static void what_is_no_json_says_the_line(void **state) {
    (void)state;
    struct err err = {0};
    json_t *o = NULL;
    assert_err(json_parse(SV("{\n\"a\": }"), "task.json", &o, &err), ERR_INPUT, &err,
               "task.json line 2");
    assert_err(json_parse(SV("{\"a\":1,\"a\":2}"), "x", &o, &err), ERR_INPUT, &err, "duplicate");
    assert_null(o);
}

static void any_bytes_become_a_json_string_that_parses_back(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    assert_int_equal(json_quote((struct sv){"a\"\\\n\0\x7f\xff\xc3\xa9", 9}, &b), 0);
    assert_string_equal(buf_cstr(&b), "\"a\\\"\\\\\\n\\u0000\\u007f\xEF\xBF\xBD\xc3\xa9\"");
    struct err err = {0};
    AUTO_JSON json_t *o = NULL;
    assert_ok(json_parse(buf_sv(&b), "x", &o, &err), &err);
}

static void text_that_is_not_utf8_is_cleaned_and_not_refused(void **state) {
    (void)state;
    AUTO_JSON json_t *s = json_text(SV("x\xff"));
    assert_string_equal(json_string_value(s), "x\xEF\xBF\xBD");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_wrong_type_names_place_field_and_both_types),
    cmocka_unit_test(an_unknown_field_is_answered_with_the_nearest),
    cmocka_unit_test(what_is_no_json_says_the_line),
    cmocka_unit_test(any_bytes_become_a_json_string_that_parses_back),
    cmocka_unit_test(text_that_is_not_utf8_is_cleaned_and_not_refused),
};

RUN_TESTS(tests)
