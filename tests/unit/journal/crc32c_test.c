/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/crc32c.h"

#include "tests/testing.h"

/* RFC 3720 appendix B.4, and the check value of the polynomial's catalogue entry. */
static void the_published_vectors_hold(void **state) {
    (void)state;
    unsigned char bytes[48];
    memset(bytes, 0, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xff, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x62A8AB43);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (unsigned char)i;
    }
    assert_int_equal(crc32c(0, bytes, 32), 0x46DD794E);
    for (int i = 0; i < 32; i++) {
        bytes[i] = (unsigned char)(31 - i);
    }
    assert_int_equal(crc32c(0, bytes, 32), 0x113FDB5C);
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void tables_and_instruction_agree_at_every_length_and_offset(void **state) {
    (void)state;
    unsigned char bytes[80];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 37 + 11);
    }
    for (size_t from = 0; from < 16; from++) {
        for (size_t n = 0; n <= 64; n++) {
            assert_int_equal(crc32c(7, bytes + from, n), crc32c_by_table(7, bytes + from, n));
        }
    }
}

/* Long ones are taken in three runs side by side. */
static void tables_and_instruction_agree_over_long_bytes(void **state) {
    (void)state;
    static unsigned char bytes[10000];
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof bytes; i++) {
        random = random * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(random >> 24);
    }
    for (size_t n = 3000; n < sizeof bytes - 7; n += 61) {
        assert_int_equal(crc32c(9, bytes + n % 8, n), crc32c_by_table(9, bytes + n % 8, n));
    }
    assert_int_equal(crc32c(0, bytes, 3 * 1024), crc32c_by_table(0, bytes, 3 * 1024));
}

static void it_goes_on_from_what_came_before(void **state) {
    (void)state;
    for (size_t cut = 0; cut <= 9; cut++) {
        uint32_t crc = crc32c(0, "123456789", cut);
        assert_int_equal(crc32c(crc, &"123456789"[cut], 9 - cut), 0xE3069283);
        crc = crc32c_by_table(0, "123456789", cut);
        assert_int_equal(crc32c_by_table(crc, &"123456789"[cut], 9 - cut), 0xE3069283);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_published_vectors_hold),
    cmocka_unit_test(tables_and_instruction_agree_at_every_length_and_offset),
    cmocka_unit_test(tables_and_instruction_agree_over_long_bytes),
    cmocka_unit_test(it_goes_on_from_what_came_before),
};

RUN_TESTS(tests)
