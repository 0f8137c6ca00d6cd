/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_TESTING_H
#define SNAFFLE_TESTS_TESTING_H

/* cmocka with the headers it wants before it, and what every test program needs. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

/* Fails with the error's own words. */
#define assert_ok(call, err_ptr)                                                                   \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, (err_ptr)->msg);                                             \
        }                                                                                          \
    } while (0)

/* The call fails with this code, and its message holds the words. */
#define assert_err(call, want_code, err_ptr, words)                                                \
    do {                                                                                           \
        int assert_err_code_ = (int)(call);                                                        \
        if (assert_err_code_ != (want_code) || !strstr((err_ptr)->msg, (words))) {                 \
            fail_msg("%s: want %s '%s', got %s '%s'", #call, err_name(want_code), (words),         \
                     err_name(assert_err_code_), (err_ptr)->msg);                                  \
        }                                                                                          \
    } while (0)

/* One line that says what is absent, and the case counts as skipped. */
#define skip_because(...)                                                                          \
    do {                                                                                           \
        print_message("# skipped: " __VA_ARGS__);                                                  \
        print_message("\n");                                                                       \
        skip();                                                                                    \
    } while (0)

#define RUN_TESTS(tests)                                                                           \
    int main(void) {                                                                               \
        cmocka_set_message_output(CM_OUTPUT_TAP);                                                  \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif
