/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/json_valid.h"

static const char *const good[] = {
    "0",
    "-0",
    "-12.50e+3",
    "1E9",
    "123456789012345678901234567890",
    "\"\"",
    " \t\r\n null \n",
    "true",
    "false",
    "[]",
    "[ ]",
    "{ }",
    "[1,[2,{\"a\":[]}],3]",
    "{\"a\":{\"b\":[{}]},\"a\":1}",
    "\"\\u0000\\ud800\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\x7f \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"",
};

static const char *const bad[] = {
    "",
    " ",
    "-",
    "01",
    "1.",
    ".5",
    "1e",
    "+1",
    "nul",
    "nullx",
    "True",
    "NaN",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1",
    "[",
    "]",
    "{",
    "{\"a\"}",
    "{\"a\":}",
    "{a:1}",
    "{\"a\":1,}",
    "{1:2}",
    "[}",
    "{]",
    "\"",
    "\"\\x\"",
    "\"\\u12",
    "\"\\u12g4\"",
    "\"a\nb\"",
    "\"\xff\"",
    "\"\xc3\"",
    "\"\xc0\x80\"",
    "\"\xed\xa0\x80\"",
    "1 2",
    "{} {}",
    "'a'",
    "/**/1",
    "\xef\xbb\xbf"
    "1",
    "\"\\",
    "[1]]",
};

static void what_the_grammar_allows_is_valid(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!json_valid(sv_from(good[i]))) {
            fail_msg("refused: %s", good[i]);
        }
    }
}

static void what_it_does_not_allow_is_not(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (json_valid(sv_from(bad[i]))) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
}

static void a_nul_byte_is_never_valid(void **state) {
    (void)state;
    assert_false(json_valid(SV("1\0")));
    assert_false(json_valid(SV("\"a\0b\"")));
    assert_false(json_valid(SV("\"\\\0\"")));
}

static void a_value_cut_anywhere_is_not_valid(void **state) {
    (void)state;
    struct sv whole = SV("{\"a\":[1,\"x\\u00e9\xc3\xa9\",{\"b\":null}],\"c\":-1.5e3}");
    assert_true(json_valid(whole));
    for (size_t n = 0; n < whole.n; n++) {
        /* In memory of its own, so that reading past the end is seen by a sanitizer. */
        char *copy = malloc(n ? n : 1);
        memcpy(copy, whole.p, n);
        assert_false(json_valid((struct sv){copy, n}));
        free(copy);
    }
}

static void depth_is_bounded(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    for (size_t i = 0; i < JSON_VALID_DEPTH_MAX; i++) {
        assert_int_equal(buf_addc(&b, '['), 0);
    }
    for (size_t i = 0; i < JSON_VALID_DEPTH_MAX; i++) {
        assert_int_equal(buf_addc(&b, ']'), 0);
    }
    assert_true(json_valid(buf_sv(&b)));
    AUTO_BUF struct buf deeper = {0};
    assert_int_equal(buf_addf(&deeper, "[%s]", buf_cstr(&b)), 0);
    assert_false(json_valid(buf_sv(&deeper)));
}

static void raw_is(const char *object, const char *field, const char *want) {
    struct sv got = json_raw_get(sv_from(object), field);
    if (!sv_eq(got, sv_from(want))) {
        fail_msg("%s of %s: want %s, got %.*s", field, object, want, SV_ARG(got));
    }
}

static void a_field_is_found_as_it_is_spelled(void **state) {
    (void)state;
    const char *object = " { \"a\" : 1.50e0 , \"b\":{\"a\":[2]},\"c\":\"x\\\"a\",\"a\":3}";
    raw_is(object, "a", "1.50e0");
    raw_is(object, "b", "{\"a\":[2]}");
    raw_is(object, "c", "\"x\\\"a\"");
    raw_is(object, "d", "");
    raw_is("{}", "a", "");
    raw_is("[\"a\"]", "a", "");
    raw_is("", "a", "");
    raw_is("{\"a\"", "a", "");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_field_is_found_as_it_is_spelled),
    cmocka_unit_test(what_the_grammar_allows_is_valid),
    cmocka_unit_test(what_it_does_not_allow_is_not),
    cmocka_unit_test(a_nul_byte_is_never_valid),
    cmocka_unit_test(a_value_cut_anywhere_is_not_valid),
    cmocka_unit_test(depth_is_bounded),
};

RUN_TESTS(tests)
