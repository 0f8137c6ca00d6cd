/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/sandbox.h"

#include <math.h>

#include "tests/testing.h"

/* A backend that only counts: what the contract's outer face refuses never reaches it. */

static int reached;

static int create(const struct sandbox_spec *spec, deadline_ms until, const struct cancel *cancel,
                  struct sandbox **out, struct err *err) {
    (void)spec, (void)until, (void)cancel, (void)out, (void)err;
    reached++;
    return 0;
}

static int exec(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_output *out,
                struct err *err) {
    (void)s, (void)what, (void)out, (void)err;
    reached++;
    return 0;
}

static int write_file(struct sandbox *s, const char *path, struct sv content, unsigned mode,
                      struct err *err) {
    (void)s, (void)path, (void)content, (void)mode, (void)err;
    reached++;
    return 0;
}

static const struct sandbox_backend backend = {.name = "counting", .create = create};
static const struct sandbox_ops ops = {.exec = exec, .write_file = write_file};

static int try_create(struct sandbox_spec spec, struct err *err) {
    struct sandbox *s = NULL;
    return sandbox_create(&backend, &spec, DEADLINE_NEVER, NULL, &s, err);
}

static void labels_are_checked_before_a_backend_sees_them(void **state) {
    (void)state;
    struct err err = {0};
    char long_label[65];
    memset(long_label, 'a', 64);
    long_label[64] = '\0';
    const char *const bad[] = {NULL, "", "-a", "A", "a b", "a_b", "a/..", long_label};
    reached = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_err(try_create((struct sandbox_spec){bad[i], "run", "rollout", 0}, &err), ERR_INPUT,
                   &err, "owner");
        assert_err(try_create((struct sandbox_spec){"owner", bad[i], "rollout", 0}, &err),
                   ERR_INPUT, &err, "run");
        assert_err(try_create((struct sandbox_spec){"owner", "run", bad[i], 0}, &err), ERR_INPUT,
                   &err, "rollout");
    }
    assert_int_equal(reached, 0);
    assert_ok(try_create((struct sandbox_spec){"0", "a-", long_label + 1, 0}, &err), &err);
    assert_int_equal(reached, 1);
}

static void limits_that_nothing_can_run_in_are_refused(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_spec spec = {"owner", "run", "rollout", 0};
    spec.limits.memory_mb = 31;
    assert_err(try_create(spec, &err), ERR_INPUT, &err, "31 MB");
    spec.limits.memory_mb = 32;
    assert_ok(try_create(spec, &err), &err);
    spec.limits.processes = -5;
    assert_err(try_create(spec, &err), ERR_INPUT, &err, "-5 processes");
}

static void a_command_must_be_one_thing_and_whole(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox_output out = {0};
    struct sandbox s = {.ops = &ops};
    const char *no_words[] = {NULL};
    const char *empty_word[] = {"", NULL};
    const char *secret[] = {"KEY=ok", "forgotten-name-sk-12345", NULL};
    const char *no_name[] = {"=x", NULL};
    const struct sandbox_exec bad[] = {
        {0},
        {.argv = no_words},
        {.argv = empty_word},
        {.shell = "true", .argv = empty_word},
        {.shell = "true", .timeout_s = -0.5},
        {.shell = "true", .timeout_s = (double)NAN},
        {.shell = "true", .env = secret},
        {.shell = "true", .env = no_name},
        {.shell = "true", .stdout_path = "x"},
    };
    reached = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sandbox_exec(&s, &bad[i], &out, &err), ERR_INPUT);
        assert_null(strstr(err.msg, "12345"));
    }
    assert_int_equal(reached, 0);
    assert_ok(sandbox_exec(&s, &(struct sandbox_exec){.shell = ""}, &out, &err), &err);
    assert_int_equal(reached, 1);
}

static void a_files_path_and_mode_are_checked(void **state) {
    (void)state;
    struct err err = {0};
    struct sandbox s = {.ops = &ops};
    reached = 0;
    assert_err(sandbox_write_file(&s, "", SV("x"), 0644, &err), ERR_INPUT, &err, "empty");
    assert_err(sandbox_write_file(&s, NULL, SV("x"), 0644, &err), ERR_INPUT, &err, "empty");
    assert_err(sandbox_write_file(&s, "f", SV("x"), 04755, &err), ERR_INPUT, &err, "04755");
    assert_int_equal(reached, 0);
    assert_ok(sandbox_write_file(&s, "f", SV("x"), 0777, &err), &err);
}

static void backends_are_found_by_name(void **state) {
    (void)state;
    assert_ptr_equal(sandbox_backend_find("local"), &sandbox_local);
    assert_null(sandbox_backend_find("nowhere"));
    for (const char *const *name = sandbox_backend_names; *name; name++) {
        assert_string_equal(sandbox_backend_find(*name)->name, *name);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(labels_are_checked_before_a_backend_sees_them),
    cmocka_unit_test(limits_that_nothing_can_run_in_are_refused),
    cmocka_unit_test(a_command_must_be_one_thing_and_whole),
    cmocka_unit_test(a_files_path_and_mode_are_checked),
    cmocka_unit_test(backends_are_found_by_name),
};

RUN_TESTS(tests)
