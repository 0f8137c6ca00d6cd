/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/redact.h"
#include "tests/testing.h"

#define KEY "sk-sk-key-of-the-endpoint"
#define STARS "*************************"

static const struct {
    const char *in, *out;
} cases[] = {
    {"", ""},
    {"nothing of it", "nothing of it"},
    {KEY, STARS},
    {"a" KEY "b", "a" STARS "b"},
    {KEY KEY, STARS STARS},
    {"sk-" KEY " sk-sk-", "sk-" STARS " sk-sk-"},
    {"sk-sk-key-of-the-endpoin " KEY, "sk-sk-key-of-the-endpoin " STARS},
    {"ends in its beginning sk-sk-key", "ends in its beginning sk-sk-key"},
};

static void feed(struct redact *r, struct sv part, struct buf *out) {
    struct sv shown;
    assert_int_equal(redact_feed(r, part, &shown), 0);
    assert_int_equal(buf_add_sv(out, shown), 0);
}

static void the_key_is_found_however_it_is_cut(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sv in = sv_from(cases[i].in);
        for (size_t a = 0; a <= in.n; a++) {
            for (size_t b = a; b <= in.n; b++) {
                struct redact r = {.key = SV(KEY)};
                AUTO_BUF struct buf out = {0};
                feed(&r, (struct sv){in.p, a}, &out);
                feed(&r, (struct sv){in.p + a, b - a}, &out);
                feed(&r, sv_cut(in, b), &out);
                assert_int_equal(buf_add_sv(&out, redact_end(&r)), 0);
                assert_string_equal(buf_cstr(&out), cases[i].out);
                buf_deinit(&r.carry);
                buf_deinit(&r.out);
            }
        }
    }
}

static void bytes_that_are_not_the_key_wait_for_nothing(void **state) {
    (void)state;
    struct redact r = {.key = SV(KEY)};
    struct sv shown, in = SV("data: {}\n\n");
    assert_int_equal(redact_feed(&r, in, &shown), 0);
    assert_ptr_equal(shown.p, in.p);
    assert_int_equal(shown.n, in.n);
}

static void a_word_in_a_keys_place_is_left_alone(void **state) {
    (void)state;
    char text[] = "EMPTY is a word";
    struct redact r = {.key = SV("EMPTY")};
    struct sv shown, in = SV("EMPTY is a word");
    redact_text(r.key, text, sizeof text - 1);
    assert_string_equal(text, "EMPTY is a word");
    assert_int_equal(redact_feed(&r, in, &shown), 0);
    assert_ptr_equal(shown.p, in.p);
}

static void the_key_is_found_at_every_place_of_texts_of_every_length(void **state) {
    (void)state;
    char text[200], want[200];
    for (size_t n = sizeof KEY - 1; n < sizeof text; n++) {
        for (size_t at = 0; at + sizeof KEY - 1 <= n; at++) {
            for (size_t i = 0; i < n; i++) {
                text[i] = "st"[i % 3 == 0]; /* Its first and last byte all over the place. */
            }
            memcpy(text + at, KEY, sizeof KEY - 1);
            memcpy(want, text, n);
            memset(want + at, '*', sizeof KEY - 1);
            redact_text(SV(KEY), text, n);
            assert_memory_equal(text, want, n);
            memcpy(text + at, KEY, sizeof KEY - 1);
            text[at + 3] = 'x';
            memcpy(want, text, n);
            redact_text(SV(KEY), text, n);
            assert_memory_equal(text, want, n);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_key_is_found_however_it_is_cut),
    cmocka_unit_test(bytes_that_are_not_the_key_wait_for_nothing),
    cmocka_unit_test(the_key_is_found_at_every_place_of_texts_of_every_length),
    cmocka_unit_test(a_word_in_a_keys_place_is_left_alone),
};

RUN_TESTS(tests)
