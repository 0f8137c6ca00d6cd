/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"

#include "tests/testing.h"

static void an_empty_buffer_reads_as_an_empty_string(void **state) {
    (void)state;
    struct buf b = {0};
    assert_string_equal(buf_cstr(&b), "");
    char *s = buf_take(&b);
    assert_string_equal(s, "");
    free(s);
}

static void what_is_added_stands_in_order_and_ends_in_nul(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(buf_addf(&b, "%d,", i), 0);
    }
    assert_int_equal(b.len, 3890);
    assert_int_equal(b.data[b.len], 0);
    buf_consume(&b, 3886);
    assert_string_equal(buf_cstr(&b), "999,");
}

static void the_limit_refuses_and_leaves_the_content(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {.limit = 5};
    assert_int_equal(buf_adds(&b, "abc"), 0);
    assert_int_equal(buf_adds(&b, "def"), ERR_LIMIT);
    assert_string_equal(buf_cstr(&b), "abc");
    assert_int_equal(buf_adds(&b, "de"), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_empty_buffer_reads_as_an_empty_string),
    cmocka_unit_test(what_is_added_stands_in_order_and_ends_in_nul),
    cmocka_unit_test(the_limit_refuses_and_leaves_the_content),
};

RUN_TESTS(tests)
