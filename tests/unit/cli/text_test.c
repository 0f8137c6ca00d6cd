/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include <locale.h>

#include "base/mem.h"
#include "cli/text.h"

static void nothing_harmful_reaches_a_terminal(void **state) {
    static const struct {
        struct sv in;
        const char *out;
    } rows[] = {
        {{"plain", 5}, "plain"},
        {{"a\nb\tc\r", 6}, "a\\nb\\tc\\r"},
        {{"\x1b[2J\x07", 5}, "\\x1b[2J\\x07"},
        {{"\xc2\x9b", 2}, "\\x9b"},       /* The one-byte form of ESC [. */
        {{"\xe2\x80\xae", 3}, "\\u202e"}, /* Turns a line's direction. */
        {{"\xff\xc3", 2}, "\xef\xbf\xbd\xef\xbf\xbd"},
        {{"\xc3\xa9\xe6\xbc\xa2", 5}, "\xc3\xa9\xe6\xbc\xa2"},
        {{"a\0b", 3}, "a\\x00b"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf out = {0};
        assert_int_equal(text_printable(rows[i].in, &out), 0);
        assert_string_equal(buf_cstr(&out), rows[i].out);
    }
}

static void wide_and_combining_characters_are_measured_in_columns(void **state) {
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) {
        skip_because("no C.UTF-8 locale here");
    }
    assert_int_equal(text_width(SV("abc")), 3);
    assert_int_equal(text_width(SV("\xe6\xbc\xa2\xe5\xad\x97")), 4);
    assert_int_equal(text_width(SV("e\xcc\x81")), 1);
    assert_int_equal(text_front(SV("\xe6\xbc\xa2\xe5\xad\x97"), 3).n, 3);
    assert_int_equal(text_front(SV("abc"), 2).n, 2);
    assert_int_equal(text_front(SV("abc"), 9).n, 3);
}

static void durations_and_amounts_are_short(void **state) {
    char out[32];
    (void)state;
    text_duration(0.44, out);
    assert_string_equal(out, "0.4 s");
    text_duration(59.4, out);
    assert_string_equal(out, "59 s");
    text_duration(200, out);
    assert_string_equal(out, "3 m 20 s");
    text_duration(7500, out);
    assert_string_equal(out, "2 h 5 m");
    text_duration(-1, out);
    assert_string_equal(out, "0.0 s");
    text_amount(950, out);
    assert_string_equal(out, "950");
    text_amount(12345, out);
    assert_string_equal(out, "12.3k");
    text_amount(4000000, out);
    assert_string_equal(out, "4.0M");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_harmful_reaches_a_terminal),
    cmocka_unit_test(wide_and_combining_characters_are_measured_in_columns),
    cmocka_unit_test(durations_and_amounts_are_short),
};

RUN_TESTS(tests)
