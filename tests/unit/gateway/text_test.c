/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/text.h"

#include "tests/testing.h"

static void keys_match_however_they_are_escaped(void **state) {
    (void)state;
    assert_true(text_is(SV("model"), SV("model")));
    assert_true(text_is(SV("mod\\u0065l"), SV("model")));
    assert_true(text_is(SV("\\u006D\\u006f\\u0064el"), SV("model")));
    assert_true(text_is(SV("a\\/b"), SV("a/b")));
    assert_true(text_is(SV("\\ud83d\\ude00"), SV("\xf0\x9f\x98\x80")));
    assert_false(text_is(SV("mod\\u0065"), SV("model")));
    assert_false(text_is(SV("mod\\u0065ll"), SV("model")));
    assert_false(text_is(SV("Model"), SV("model")));
    assert_false(text_is(SV(""), SV("model")));
}

static void strings_are_decoded_with_lone_surrogates_replaced(void **state) {
    AUTO_BUF struct buf out = {0};
    (void)state;
    assert_int_equal(
        text_decode(SV("a\\n\\t\\\"\\\\\\/\\u00e9\\u20ac\\ud83d\\ude00 \\ud800x\\udc00"), &out), 0);
    assert_string_equal(buf_cstr(&out), "a\n\t\"\\/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 "
                                        "\xef\xbf\xbdx\xef\xbf\xbd");
}

static void infinities_become_null_outside_strings_only(void **state) {
    AUTO_BUF struct buf out = {0};
    (void)state;
    assert_int_equal(
        text_copy_finite(SV("{\"NaN\":NaN,\"a\":[-Infinity,Infinity,-1.50],\"\\\"NaN\":\"I\"}"),
                         &out),
        0);
    assert_string_equal(buf_cstr(&out), "{\"NaN\":null,\"a\":[null,null,-1.50],\"\\\"NaN\":\"I\"}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_match_however_they_are_escaped),
        cmocka_unit_test(strings_are_decoded_with_lone_surrogates_replaced),
        cmocka_unit_test(infinities_become_null_outside_strings_only),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
