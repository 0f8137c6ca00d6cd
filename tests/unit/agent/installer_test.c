/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/installer.h"

#include "base/mem.h"
#include "tests/testing.h"

static void the_version_goes_to_the_installer_and_not_to_what_fetches_it(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *pinned = NULL;
    AUTO_FREE char *latest = NULL;
    assert_ok(installer_command("https://a.example/i", "1.0.180", &pinned, &err), &err);
    assert_non_null(strstr(pinned, "curl -fsSL 'https://a.example/i'\n"));
    assert_non_null(strstr(pinned, "bash -s -- --version 1.0.180"));
    assert_ok(installer_command("https://a.example/i", NULL, &latest, &err), &err);
    assert_null(strstr(latest, "--version"));
}

static void a_version_that_is_none_becomes_no_part_of_a_command(void **state) {
    (void)state;
    struct err err = {0};
    char *text = NULL;
    assert_err(installer_command("https://a.example/i", "1; touch x", &text, &err), ERR_INPUT, &err,
               "is no version");
    assert_null(text);
}

static void each_end_says_what_it_was_and_whether_to_try_again(void **state) {
    (void)state;
    static const struct {
        int exit_code;
        bool timed_out;
        const char *out, *err;
        int code;
        bool again;
        const char *says;
    } rows[] = {
        {0, false, "installed", "warning", 0, false, NULL},
        {1, false, "Failed to fetch version information", "", ERR_ENVIRONMENT, false, "pin one"},
        {137, false, "", "", ERR_SYS, true, "it said nothing"},
        {1, false, "downloading", "", ERR_SYS, true, "downloading"},
        {1, false, "", "unpacking failed\n", ERR_SYS, false, "unpacking failed"},
        {6, false, "", "curl: (6) Could not resolve host", ERR_SYS, true, "resolve host"},
        {22, false, "", "curl: (22) The requested URL returned error: 503", ERR_SYS, true, "503"},
        {22, false, "", "curl: (22) The requested URL returned error: 404", ERR_SYS, false, "404"},
        {124, true, "", "[timed out after 240s]", ERR_SYS, true, "ran out of time"},
        {96, false, "", "there is neither curl nor wget", ERR_ENVIRONMENT, false,
         "snaffle agent install opencode"},
        {1, false, "", "two\nlines\x1b[0m \xff", ERR_SYS, false, "two lines [0m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {0};
        bool again = !rows[i].again;
        int r = installer_judge(&(struct installer_end){.agent = "opencode",
                                                        .exit_code = rows[i].exit_code,
                                                        .timed_out = rows[i].timed_out,
                                                        .out = sv_from(rows[i].out),
                                                        .err = sv_from(rows[i].err)},
                                &again, &err);
        assert_int_equal(r, rows[i].code);
        assert_int_equal(again, rows[i].again);
        if (rows[i].says && !strstr(err.msg, rows[i].says)) {
            fail_msg("row %zu: %s", i, err.msg);
        }
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_version_goes_to_the_installer_and_not_to_what_fetches_it),
    cmocka_unit_test(a_version_that_is_none_becomes_no_part_of_a_command),
    cmocka_unit_test(each_end_says_what_it_was_and_whether_to_try_again),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
