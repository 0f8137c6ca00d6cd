/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "gateway/scan.h"

#include "tests/testing.h"

static int kind_of(const char *text) {
    struct sv value;
    return scan_whole(sv_from(text), &value);
}

static void every_kind_of_value_is_taken(void **state) {
    (void)state;
    assert_int_equal(kind_of("{}"), SCAN_OBJECT);
    assert_int_equal(kind_of(" [ ] "), SCAN_ARRAY);
    assert_int_equal(kind_of("\"\\u00e9\\\"\""), SCAN_STRING);
    assert_int_equal(kind_of("-0.5e+10"), SCAN_NUMBER);
    assert_int_equal(kind_of("123456789012345678901234567890"), SCAN_NUMBER);
    assert_int_equal(kind_of("true"), SCAN_TRUE);
    assert_int_equal(kind_of("false"), SCAN_FALSE);
    assert_int_equal(kind_of("\r\n\tnull"), SCAN_NULL);
    assert_int_equal(kind_of("NaN"), SCAN_NONFINITE);
    assert_int_equal(kind_of("Infinity"), SCAN_NONFINITE);
    assert_int_equal(kind_of("-Infinity"), SCAN_NONFINITE);
    assert_int_equal(kind_of("[1,2,3.5,4e2,-1,0]"), SCAN_ARRAY);
}

static void what_is_no_json_is_refused(void **state) {
    static const char *const bad[] = {
        "",          " ",
        "{",         "[",
        "[1",        "[1,",
        "[,1]",      "[1 2]",
        "{\"a\"}",   "{\"a\":}",
        "{a:1}",     "{\"a\":1,}",
        "[1,]",      "01",
        "-",         "1.",
        "1e",        ".5",
        "+1",        "nul",
        "True",      "\"a",
        "\"\\x\"",   "\"\\u12g4\"",
        "\"\\",      "'a'",
        "{} {}",     "1 1",
        "[1}",       "{\"a\":1]",
        "\"a\nb\"",  "Nan",
        "-Inf",      "[1.]",
        "[12e]",     "[00]",
        "{\"a\" 1}", "{\"a\":1 \"b\":2}",
        "/**/1",     "\"\t\"",
        "]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (kind_of(bad[i]) != ERR_INPUT) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
}

static void every_cut_of_a_text_is_refused(void **state) {
    struct sv value;
    struct sv text =
        SV("{\"a\":[1,-2.5e3,\"x\\u00e9y\",{\"b\":null}],\"cdefghijklmnopqrstuv\":true}");
    (void)state;
    for (size_t n = 0; n < text.n; n++) {
        char *copy = malloc(n + 1); /* So that a sanitizer sees a step past the end. */
        assert_non_null(copy);
        memcpy(copy, text.p, n);
        char *exact = realloc(copy, n ? n : 1);
        assert_int_equal(scan_whole((struct sv){exact, n}, &value), ERR_INPUT);
        free(exact);
    }
    assert_int_equal(scan_whole(text, &value), SCAN_OBJECT);
}

static void a_string_ends_where_its_quote_is_at_every_length(void **state) {
    char text[100];
    struct sv value;
    (void)state;
    for (size_t n = 0; n < 90; n++) {
        memset(text, 'x', sizeof text);
        text[0] = '"';
        text[n + 1] = '"';
        assert_int_equal(scan_whole((struct sv){text, n + 2}, &value), SCAN_STRING);
        assert_int_equal(value.n, n + 2);
        if (n > 0) {
            text[n] = '\x1f';
            assert_int_equal(scan_whole((struct sv){text, n + 2}, &value), ERR_INPUT);
            text[n] = '\x7f';
            assert_int_equal(scan_whole((struct sv){text, n + 2}, &value), SCAN_STRING);
        }
    }
}

static void nesting_has_a_limit_with_a_reason(void **state) {
    char text[2 * SCAN_DEPTH_MAX + 2];
    struct sv value;
    struct scan s;
    (void)state;
    memset(text, '[', SCAN_DEPTH_MAX + 1);
    memset(text + SCAN_DEPTH_MAX + 1, ']', SCAN_DEPTH_MAX + 1);
    assert_int_equal(scan_whole((struct sv){text + 1, 2 * SCAN_DEPTH_MAX}, &value), SCAN_ARRAY);
    scan_init(&s, (struct sv){text, sizeof text});
    assert_int_equal(scan_skip(&s, &value), ERR_LIMIT);
    assert_string_equal(s.fault, "nested too deep");
}

static void members_come_in_order_with_their_spelling(void **state) {
    struct scan s;
    struct sv key;
    struct sv value;
    (void)state;
    scan_init(&s, SV(" { \"b\" : 1.50 , \"a\\u0062\":[ ],\"b\":{\"x\":[1,{}]} } "));
    assert_int_equal(scan_enter_object(&s), 0);
    assert_int_equal(scan_next_key(&s, &key), 1);
    assert_true(sv_eq(key, SV("b")));
    assert_int_equal(scan_skip(&s, &value), SCAN_NUMBER);
    assert_true(sv_eq(value, SV("1.50")));
    assert_int_equal(scan_next_key(&s, &key), 1);
    assert_true(sv_eq(key, SV("a\\u0062")));
    assert_int_equal(scan_enter_array(&s), 0);
    assert_int_equal(scan_next_item(&s), 0);
    assert_int_equal(scan_next_key(&s, &key), 1);
    assert_int_equal(scan_skip(&s, &value), SCAN_OBJECT);
    assert_true(sv_eq(value, SV("{\"x\":[1,{}]}")));
    assert_int_equal(scan_next_key(&s, &key), 0);
    assert_int_equal(scan_end(&s), 0);
}

static void items_are_entered_one_by_one(void **state) {
    struct scan s;
    struct sv value;
    (void)state;
    scan_init(&s, SV("[[1,2],[],[3]]"));
    size_t lists = 0;
    size_t numbers = 0;
    assert_int_equal(scan_enter_array(&s), 0);
    while (scan_next_item(&s) == 1) {
        lists++;
        assert_int_equal(scan_enter_array(&s), 0);
        while (scan_next_item(&s) == 1) {
            numbers++;
            assert_int_equal(scan_skip(&s, &value), SCAN_NUMBER);
        }
    }
    assert_int_equal(scan_end(&s), 0);
    assert_int_equal(lists, 3);
    assert_int_equal(numbers, 3);
}

static void after_a_fault_everything_fails(void **state) {
    struct scan s;
    struct sv value;
    (void)state;
    scan_init(&s, SV("[1 2]"));
    assert_int_equal(scan_skip(&s, &value), ERR_INPUT);
    assert_int_equal(scan_skip(&s, &value), ERR_INPUT);
    assert_int_equal(scan_enter_array(&s), ERR_INPUT);
    assert_int_equal(scan_end(&s), ERR_INPUT);
    assert_string_equal(s.fault, "no comma between two elements");
}

static void infinities_are_noted(void **state) {
    struct scan s;
    struct sv value;
    (void)state;
    scan_init(&s, SV("{\"a\":[1,-Infinity]}"));
    assert_int_equal(scan_skip(&s, &value), SCAN_OBJECT);
    assert_true(s.nonfinite);
    scan_init(&s, SV("{\"a\":\"NaN\"}"));
    assert_int_equal(scan_skip(&s, &value), SCAN_OBJECT);
    assert_false(s.nonfinite);
}

static void lists_of_numbers_are_checked_at_every_length(void **state) {
    static const char *const bad[] = {",7", "7,", "1,,2", "01", "1 ", "x"};
    struct sv value;
    (void)state;
    for (size_t n = 1; n < 70; n++) {
        AUTO_BUF struct buf b = {0};
        assert_int_equal(buf_addc(&b, '['), 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(buf_addf(&b, "%zu,", i * 37 % 1000), 0);
        }
        size_t before = b.len;
        assert_int_equal(buf_adds(&b, "0]"), 0);
        struct scan s;
        scan_init(&s, buf_sv(&b));
        assert_true(scan_int_list(&s, &value));
        assert_int_equal(value.n, b.len);
        assert_int_equal(scan_whole(buf_sv(&b), &value), SCAN_ARRAY);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            b.len = before;
            assert_int_equal(buf_addf(&b, "%s]", bad[i]), 0);
            scan_init(&s, buf_sv(&b));
            assert_false(scan_int_list(&s, &value));
            assert_ptr_equal(s.p, b.data);
            int want = strcmp(bad[i], "1 ") == 0 ? SCAN_ARRAY : ERR_INPUT;
            assert_int_equal(scan_whole(buf_sv(&b), &value), want);
        }
    }
}

/* Numbers are taken with the bytes behind them, if there are enough. */
static void a_row_gives_its_number_whatever_follows_it(void **state) {
    static const char *const good[] = {"0.5", "0", "7", "12.25", "9999.0", "0.0"};
    static const char *const other[] = {"00.5", "01", "1.", "",  ".5",
                                        "--1",  "+1", "1x", " 1"}; /* No JSON, or read elsewhere. */
    (void)state;
    for (size_t digits = 0; digits < 60; digits++) {
        for (size_t i = 0; i < ARRAY_LEN(good) + ARRAY_LEN(other); i++) {
            AUTO_BUF struct buf b = {0};
            struct scan s;
            struct scan_row row;
            bool is_good = i < ARRAY_LEN(good);
            const char *number = is_good ? good[i] : other[i - ARRAY_LEN(good)];
            assert_int_equal(buf_addf(&b, "{\"token\":\"a\",\"logprob\":-%s", number), 0);
            for (size_t d = 0; d < digits && strchr(number, '.'); d++) {
                assert_int_equal(buf_addc(&b, (char)('0' + d % 10)), 0);
            }
            is_good |= strcmp(number, "1.") == 0 && digits > 0;
            struct sv want = sv_cut(buf_sv(&b), sizeof "{\"token\":\"a\",\"logprob\":" - 1);
            size_t n = want.n;
            assert_int_equal(buf_adds(&b, ",\"bytes\":[97],\"top_logprobs\":[{\"token\":\"\","
                                          "\"logprob\":-1.5,\"bytes\":[]}]}"),
                             0);
            scan_init(&s, buf_sv(&b));
            assert_int_equal(scan_row(&s, &row), is_good);
            if (is_good) {
                assert_int_equal(row.logprob.n, n);
                assert_int_equal(row.text.n, b.len);
            }
        }
    }
}

static void a_list_ends_at_its_bracket_whatever_follows_it(void **state) {
    (void)state;
    for (size_t n = 1; n < 80; n++) {
        AUTO_BUF struct buf b = {0};
        struct scan s;
        struct sv value;
        assert_int_equal(buf_addc(&b, '['), 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(buf_addc(&b, i % 3 == 1 && i + 1 < n ? ',' : '7'), 0);
        }
        assert_int_equal(buf_addc(&b, ']'), 0);
        size_t want = b.len;
        assert_int_equal(buf_adds(&b, ",01,,]x0123456789012345678901234567890123456789"), 0);
        scan_init(&s, buf_sv(&b));
        assert_true(scan_int_list(&s, &value));
        assert_int_equal(value.n, want);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_value_is_taken),
        cmocka_unit_test(what_is_no_json_is_refused),
        cmocka_unit_test(every_cut_of_a_text_is_refused),
        cmocka_unit_test(a_string_ends_where_its_quote_is_at_every_length),
        cmocka_unit_test(nesting_has_a_limit_with_a_reason),
        cmocka_unit_test(members_come_in_order_with_their_spelling),
        cmocka_unit_test(items_are_entered_one_by_one),
        cmocka_unit_test(after_a_fault_everything_fails),
        cmocka_unit_test(infinities_are_noted),
        cmocka_unit_test(lists_of_numbers_are_checked_at_every_length),
        cmocka_unit_test(a_row_gives_its_number_whatever_follows_it),
        cmocka_unit_test(a_list_ends_at_its_bracket_whatever_follows_it),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
