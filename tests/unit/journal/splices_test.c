/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/splices.h"

#include "tests/testing.h"

static void splices_cut_and_put_in_their_order(void **state) {
    static const struct {
        const char *splices, *want;
    } rows[] = {
        {"[]", "0123456789"},
        {"[[0,0,\"a\"]]", "a0123456789"},
        {"[[10,0,\"\\u00e9\"]]", "0123456789\xc3\xa9"},
        {"[[2,3,\"\"],[5,0,\"x\"],[5,1,\"y\"]]", "01xy6789"},
        {"[[0,10,\"\"]]", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_BUF struct buf out = {0};
        assert_int_equal(splices_apply(SV("0123456789"), sv_from(rows[i].splices), &out), 0);
        assert_string_equal(buf_cstr(&out), rows[i].want);
    }
}

static void splices_that_do_not_fit_are_refused(void **state) {
    static const char *const bad[] = {
        "",
        "{}",
        "[1]",
        "[[0,1]]",
        "[[0,1,2]]",
        "[[-1,1,\"\"]]",
        "[[0,-1,\"\"]]",
        "[[11,0,\"\"]]",
        "[[9,2,\"\"]]",
        "[[0,9223372036854775807,\"\"]]",
        "[[5,1,\"\"],[5,0,\"\"]]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        AUTO_BUF struct buf out = {0};
        assert_int_equal(splices_apply(SV("0123456789"), sv_from(bad[i]), &out), ERR_INPUT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splices_cut_and_put_in_their_order),
        cmocka_unit_test(splices_that_do_not_fit_are_refused),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
