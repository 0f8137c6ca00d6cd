/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/proc.h"

#include "tests/testing.h"

static void a_program_gives_its_exit_code_and_both_streams(void **state) {
    (void)state;
    struct err err = {0};
    struct proc_result r = {0};
    const char *argv[] = {"sh", "-c", "echo out; echo err >&2; exit 3", NULL};
    assert_ok(proc_run(&(struct proc_options){.argv = argv}, &r, &err), &err);
    assert_int_equal(r.exit_code, 3);
    assert_string_equal(buf_cstr(&r.out), "out\n");
    assert_string_equal(buf_cstr(&r.err), "err\n");
    proc_result_deinit(&r);
}

static void a_program_that_runs_too_long_is_killed_with_its_children(void **state) {
    (void)state;
    struct err err = {0};
    struct proc_result r = {0};
    const char *argv[] = {"sh", "-c", "sleep 100 & sleep 100", NULL};
    struct proc_options o = {.argv = argv, .deadline = deadline_in_ms(100)};
    int64_t start = clock_ms();
    assert_err(proc_run(&o, &r, &err), ERR_TIMEOUT, &err, "'sh' ran out of time");
    assert_true(clock_ms() - start < 60000); /* Below the hundred that it would take. */
    proc_result_deinit(&r);
}

static void a_missing_program_is_named(void **state) {
    (void)state;
    struct err err = {0};
    struct proc_result r = {0};
    const char *argv[] = {"no-such-program-here", NULL};
    assert_err(proc_run(&(struct proc_options){.argv = argv}, &r, &err), ERR_NOT_FOUND, &err,
               "'no-such-program-here'");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_program_gives_its_exit_code_and_both_streams),
    cmocka_unit_test(a_program_that_runs_too_long_is_killed_with_its_children),
    cmocka_unit_test(a_missing_program_is_named),
};

RUN_TESTS(tests)
