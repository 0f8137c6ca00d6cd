/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"

#include <errno.h>

#include "tests/testing.h"

static void a_wrapped_error_keeps_its_code_and_its_cause(void **state) {
    (void)state;
    struct err err = {0};
    assert_int_equal(err_sys(&err, ERR_SYS, ENOENT, "cannot open '%s'", "x"), ERR_SYS);
    assert_int_equal(err_wrap(&err, "task 7"), ERR_SYS);
    assert_string_equal(err.msg, "task 7: cannot open 'x': No such file or directory");
    assert_int_equal(err.sys, ENOENT);
}

static void every_code_has_its_exit_status_and_its_http_status(void **state) {
    (void)state;
    assert_int_equal(err_exit_status(ERR_INPUT), 2);
    assert_int_equal(err_exit_status(ERR_ENVIRONMENT), 3);
    assert_int_equal(err_exit_status(ERR_CANCELLED), 130);
    assert_int_equal(err_http_status(ERR_FULL), 507);
    assert_string_equal(err_name(ERR_LOST), "LOST");
    assert_string_equal(err_name(-9999), "INTERNAL");
}

static void a_message_longer_than_the_room_is_cut(void **state) {
    (void)state;
    struct err err = {0};
    char big[3000];
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = 0;
    err_set(&err, ERR_INPUT, "%s", big);
    assert_int_equal(strlen(err.msg), ERR_MSG_MAX - 1);
    err_wrap(&err, "%s", big);
    err_sys(&err, ERR_SYS, ENOENT, "%s", big);
    assert_int_equal(strlen(err.msg), ERR_MSG_MAX - 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_wrapped_error_keeps_its_code_and_its_cause),
    cmocka_unit_test(every_code_has_its_exit_status_and_its_http_status),
    cmocka_unit_test(a_message_longer_than_the_room_is_cut),
};

RUN_TESTS(tests)
