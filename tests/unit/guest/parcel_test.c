/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/parcel.h"

#include "base/mem.h"
#include "tests/testing.h"

static void check(struct sv bytes) {
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf back = {0};
    assert_int_equal(parcel_put(bytes, &text), 0);
    assert_ok(parcel_read(buf_sv(&text), &back, &err), &err);
    assert_true(sv_eq(buf_sv(&back), bytes));
    for (size_t i = 0; i < text.len; i++) { /* What every pipe carries. */
        assert_true(text.data[i] == '\n' || (text.data[i] >= ' ' && text.data[i] < 127));
    }
}

static void any_bytes_come_back(void **state) {
    (void)state;
    unsigned char all[1024];
    for (size_t i = 0; i < sizeof all; i++) {
        all[i] = (unsigned char)(i * 7);
    }
    for (size_t n = 0; n < sizeof all; n++) {
        check((struct sv){(const char *)all, n});
    }
}

static void a_known_text_has_a_known_form(void **state) {
    (void)state;
    AUTO_BUF struct buf text = {0};
    assert_int_equal(parcel_put(SV("foobar"), &text), 0); /* FNV's own test value. */
    assert_string_equal(buf_cstr(&text), "snaffle 6 85944171f73967e8 Zm9vYmFy\n");
}

static void whatever_is_cut_off_is_noticed(void **state) {
    (void)state;
    AUTO_BUF struct buf text = {0};
    assert_int_equal(parcel_put(SV("a line of some length"), &text), 0);
    for (size_t n = 0; n < text.len; n++) {
        struct err err = {0};
        AUTO_BUF struct buf back = {0};
        assert_err(parcel_read((struct sv){text.data, n}, &back, &err), ERR_PROTOCOL, &err,
                   "whole");
        assert_int_equal(back.len, 0);
        assert_err(parcel_read(sv_cut(buf_sv(&text), n + 1), &back, &err), ERR_PROTOCOL, &err, "");
    }
}

static void whatever_is_changed_is_noticed(void **state) {
    (void)state;
    AUTO_BUF struct buf text = {0};
    assert_int_equal(parcel_put(SV("a line of some length"), &text), 0);
    for (size_t i = 0; i < text.len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            struct err err = {0};
            AUTO_BUF struct buf back = {0};
            text.data[i] = (char)(text.data[i] ^ 1 << bit);
            assert_true(parcel_read(buf_sv(&text), &back, &err) < 0);
            text.data[i] = (char)(text.data[i] ^ 1 << bit);
        }
    }
}

static void what_is_no_parcel_is_none(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        "\n",
        "snaffle\n",
        "snaffle  \n",
        "snaffle 0 cbf29ce484222324 \n",
        "snaffle 18446744073709551615 85944171f73967e8 Zm9vYmFy\n",
        "snaffle 6 85944171f73967e8 Zm9v YmFy\n",
        "snaffle 6 85944171F73967E8 Zm9vYmFy\n",
        "snaffle 6 5944171f73967e8 Zm9vYmFy\n",
        "snaffle 5 85944171f73967e8 Zm9vYmFy\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        AUTO_BUF struct buf back = {0};
        assert_err(parcel_read(sv_from(rows[i]), &back, &err), ERR_PROTOCOL, &err, "whole");
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_bytes_come_back),
    cmocka_unit_test(a_known_text_has_a_known_form),
    cmocka_unit_test(whatever_is_cut_off_is_noticed),
    cmocka_unit_test(whatever_is_changed_is_noticed),
    cmocka_unit_test(what_is_no_parcel_is_none),
};

RUN_TESTS(tests)
