/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/sv.h"

#include "tests/testing.h"

static void a_number_beyond_the_maximum_is_refused(void **state) {
    (void)state;
    unsigned long long v = 7;
    assert_true(sv_parse_u64(SV("255"), 255, &v));
    assert_int_equal(v, 255);
    assert_false(sv_parse_u64(SV("256"), 255, &v));
    assert_false(sv_parse_u64(SV("18446744073709551616"), UINT64_MAX, &v));
    assert_true(sv_parse_u64(SV("18446744073709551615"), UINT64_MAX, &v));
    assert_false(sv_parse_u64(SV("9"), 5, &v));
}

static void signs_blanks_and_nothing_are_no_numbers(void **state) {
    (void)state;
    unsigned long long v = 7;
    assert_false(sv_parse_u64(SV(""), 9, &v));
    assert_false(sv_parse_u64(SV("+1"), 9, &v));
    assert_false(sv_parse_u64(SV(" 1"), 9, &v));
    assert_int_equal(v, 7);
}

static void prefixes_suffixes_and_finds_agree(void **state) {
    (void)state;
    assert_true(sv_starts_with(SV("abc"), SV("ab")));
    assert_false(sv_starts_with(SV("a"), SV("ab")));
    assert_true(sv_ends_with(SV("abc"), SV("bc")));
    assert_int_equal(sv_find(SV("abcabc"), SV("ca")), 2);
    assert_true(sv_find(SV("abc"), SV("x")) == (size_t)-1);
}

static void secrets_compare_equal_only_when_every_byte_is(void **state) {
    (void)state;
    assert_true(sv_eq_constant_time(SV("s3cret"), SV("s3cret")));
    assert_false(sv_eq_constant_time(SV("s3cret"), SV("s3creT")));
    assert_false(sv_eq_constant_time(SV("s3cret"), SV("s3cre")));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_number_beyond_the_maximum_is_refused),
    cmocka_unit_test(signs_blanks_and_nothing_are_no_numbers),
    cmocka_unit_test(prefixes_suffixes_and_finds_agree),
    cmocka_unit_test(secrets_compare_equal_only_when_every_byte_is),
};

RUN_TESTS(tests)
