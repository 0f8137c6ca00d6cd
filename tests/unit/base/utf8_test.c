/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/utf8.h"

#include "tests/testing.h"

static void surrogates_and_overlong_forms_are_no_sequences(void **state) {
    (void)state;
    assert_int_equal(utf8_sequence(SV("\xed\xa0\x80")), 0);
    assert_int_equal(utf8_sequence(SV("\xc0\x80")), 0);
    assert_int_equal(utf8_sequence(SV("\xf4\x90\x80\x80")), 0);
    assert_int_equal(utf8_sequence(SV("\xf0\x9f\x98")), 0);
    assert_int_equal(utf8_sequence(SV("\xf0\x9f\x98\x80")), 4);
    assert_int_equal(utf8_sequence(SV("\xe2\x80\xa8")), 3);
}

static void each_invalid_byte_becomes_one_replacement(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    assert_int_equal(utf8_clean(SV("a\xff\xc3\xa9\xe2\x82"), &b), 0);
    assert_string_equal(buf_cstr(&b), "a\xEF\xBF\xBD\xc3\xa9\xEF\xBF\xBD\xEF\xBF\xBD");
}

static void a_tail_never_begins_inside_a_character(void **state) {
    (void)state;
    struct sv tail = utf8_tail(SV("ab\xf0\x9f\x98\x80"
                                  "cd"),
                               4);
    assert_int_equal(tail.n, 2);
    assert_memory_equal(tail.p, "cd", 2);
}

static void first_and_last_count_characters_not_bytes(void **state) {
    (void)state;
    struct sv v = SV("a\xc3\xa9\xf0\x9f\x98\x80\xff\xe2\x82");
    assert_int_equal(utf8_first(v, 0).n, 0);
    assert_int_equal(utf8_first(v, 2).n, 3);
    assert_int_equal(utf8_first(v, 3).n, 7);
    assert_int_equal(utf8_first(v, 100).n, v.n);
    assert_int_equal(utf8_last(v, 0).n, 0);
    assert_int_equal(utf8_last(v, 2).n, 2);
    assert_int_equal(utf8_last(v, 3).n, 3);
    assert_int_equal(utf8_last(v, 4).n, 7);
    assert_int_equal(utf8_last(v, 5).n, 9);
    assert_int_equal(utf8_last(v, 100).n, v.n);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(surrogates_and_overlong_forms_are_no_sequences),
    cmocka_unit_test(each_invalid_byte_becomes_one_replacement),
    cmocka_unit_test(first_and_last_count_characters_not_bytes),
    cmocka_unit_test(a_tail_never_begins_inside_a_character),
};

RUN_TESTS(tests)
