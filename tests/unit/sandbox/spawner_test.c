/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/spawner.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "tests/testing.h"

/* Runs shell text by the spawner; gives what it wrote to its stderr. */
static const char *run(const char *shell, struct spawn what) {
    static char text[4096];
    struct err err = {0};
    const char *argv[] = {"sh", "-c", shell, NULL};
    int ends[2];
    pid_t pid = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    what.program = "/bin/sh";
    what.argv = argv;
    what.stderr_fd = ends[1];
    assert_ok(spawner_start(&what, &pid, &err), &err);
    close(ends[1]);
    size_t n = 0;
    ssize_t got = 0;
    while ((got = fd_read_some(ends[0], text + n, sizeof text - 1 - n, deadline_in_s(60), NULL,
                               &err)) > 0) {
        n += (size_t)got;
    }
    text[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return text;
}

static void a_child_has_an_empty_environment_and_the_descriptors_it_was_given(void **state) {
    (void)state;
    AUTO_CLOSE int leak = open("/dev/zero", O_RDONLY);
    AUTO_CLOSE int given = open("/dev/full", O_RDONLY | O_CLOEXEC);
    assert_true(leak >= 0 && given >= 0);
    setenv("SECRET_OF_THE_TEST", "1", 1);
    assert_string_equal(run("f=/proc/$$/fd; [ $f/0 -ef /dev/null ] && [ $f/1 -ef /dev/null ] && "
                            "[ $f/3 -ef /dev/full ] && [ $f/4 -ef /dev/full ] && echo four >&2; "
                            "for n in $(seq 5 300); do [ -e $f/$n ] && echo more $n >&2; done; "
                            "tr '\\0' '\\n' </proc/$$/environ >&2; pwd >&2",
                            (struct spawn){.fds = {given, given}, .n_fds = 2}),
                        "four\n/\n");
}

static void a_child_that_drops_has_nothing_left_of_root(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip_because("only root can drop to another user");
    }
    assert_string_equal(
        run("grep -E '^(Uid|Gid|Groups|Cap|NoNew)' /proc/self/status | tr -d ' \\t' >&2",
            (struct spawn){.drop = true, .uid = 1900000001}),
        "Uid:1900000001190000000119000000011900000001\n"
        "Gid:1900000001190000000119000000011900000001\n"
        "Groups:\nCapInh:0000000000000000\nCapPrm:0000000000000000\nCapEff:0000000000000000\n"
        "CapBnd:0000000000000000\nCapAmb:0000000000000000\nNoNewPrivs:1\n");
}

static void a_program_that_can_not_run_is_named(void **state) {
    (void)state;
    struct err err = {0};
    pid_t pid = 0;
    const char *argv[] = {"x", NULL};
    struct spawn what = {.program = "/no/such/program", .argv = argv, .stderr_fd = 2};
    assert_err(spawner_start(&what, &pid, &err), ERR_ENVIRONMENT, &err, "'/no/such/program'");
    what.program = "/dev/null";
    assert_err(spawner_start(&what, &pid, &err), ERR_SYS, &err, "be run");
    assert_int_equal(pid, 0);
}

static void *start_sleeper(void *out) {
    const char *argv[] = {"sleep", "1000", NULL};
    struct spawn what = {.program = "/bin/sleep", .argv = argv, .stderr_fd = 2};
    return spawner_start(&what, out, NULL) == 0 ? out : NULL;
}

static void a_child_outlives_the_thread_that_asked_for_it(void **state) {
    (void)state;
    pthread_t threads[8];
    pid_t pids[8] = {0};
    void *done = NULL;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, start_sleeper, &pids[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_join(threads[i], &done);
        assert_non_null(done);
    }
    clock_sleep_ms(50);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        assert_int_equal(waitpid(pids[i], NULL, WNOHANG), 0);
        kill(pids[i], SIGKILL);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_child_has_an_empty_environment_and_the_descriptors_it_was_given),
    cmocka_unit_test(a_child_that_drops_has_nothing_left_of_root),
    cmocka_unit_test(a_program_that_can_not_run_is_named),
    cmocka_unit_test(a_child_outlives_the_thread_that_asked_for_it),
};

RUN_TESTS(tests)
