/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/sized.h"

#include "tests/testing.h"

struct first {
    size_t size;
    int a;
    int b;
};

struct second {
    size_t size;
    int a;
    int b;
    const char *later;
};

#define LEAST (offsetof(struct first, b) + sizeof(int))

static void an_older_callers_struct_has_zero_for_what_it_lacks(void **state) {
    (void)state;
    struct err err = {0};
    struct first from = {.size = sizeof from, .a = 1, .b = 2};
    struct second to;
    memset(&to, 0xff, sizeof to);
    assert_ok(sized_take(&to, sizeof to, &from, LEAST, &err), &err);
    assert_int_equal(to.a, 1);
    assert_int_equal(to.b, 2);
    assert_null(to.later);
}

static void a_newer_callers_struct_is_taken_while_it_asks_for_nothing_new(void **state) {
    (void)state;
    struct err err = {0};
    struct second from = {.size = sizeof from, .a = 1};
    struct first to;
    assert_ok(sized_take(&to, sizeof to, &from, LEAST, &err), &err);
    assert_int_equal(to.a, 1);
    from.later = "x";
    assert_err(sized_take(&to, sizeof to, &from, LEAST, &err), ERR_UNSUPPORTED, &err,
               "does not know");
}

static void a_size_that_cannot_be_is_refused(void **state) {
    (void)state;
    struct first to;
    struct first from = {0};
    static const size_t sizes[] = {0, 1, LEAST - 1, SIZE_MAX, 1u << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct err err = {0};
        from.size = sizes[i];
        assert_err(sized_take(&to, sizeof to, &from, LEAST, &err), ERR_INPUT, &err, "'size'");
    }
    struct err err = {0};
    assert_err(sized_take(&to, sizeof to, NULL, LEAST, &err), ERR_INPUT, &err, "'size'");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_older_callers_struct_has_zero_for_what_it_lacks),
    cmocka_unit_test(a_newer_callers_struct_is_taken_while_it_asks_for_nothing_new),
    cmocka_unit_test(a_size_that_cannot_be_is_refused),
};

RUN_TESTS(tests)
