/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/guard.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "tests/testing.h"

/* Each test runs the program, with a shell for what it guards. */

#define PATIENCE_S 20

/* `said` is its standard output. Behind an owner, the pid is that of the process that started it.
 */
static pid_t start_guarded(bool behind_an_owner, const char *script, int *said) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const char *program = getenv("SNAFFLE_GUEST");
    if (!program) {
        fail_msg("SNAFFLE_GUEST names no program");
        return -1;
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (behind_an_owner && fork() > 0) {
            for (;;) {
                pause();
            }
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* As the spawner has it. */
        execl(program, program, "guard", "/bin/sh", "guarded", "-c", script, NULL);
        _exit(127);
    }
    close(ends[1]);
    *said = ends[0];
    return pid;
}

static void read_word(int said) {
    char word[8] = {0};
    assert_int_equal(read(said, word, sizeof word - 1), 3);
    assert_string_equal(word, "up\n");
}

/* Every holder of the pipe's other end is gone. */
static void await_end(int said) {
    char byte;
    alarm(PATIENCE_S);
    assert_int_equal(read(said, &byte, 1), 0);
    alarm(0);
    close(said);
}

static int status_of(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void its_status_is_the_programs(void **state) {
    (void)state;
    int said = -1;
    int status = status_of(start_guarded(false, "echo up; exit 7", &said));
    read_word(said);
    await_end(said);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    status = status_of(start_guarded(false, "kill -SEGV $$", &said));
    await_end(said);
    assert_int_equal(WEXITSTATUS(status), 128 + SIGSEGV);
}

static void told_to_end_it_takes_the_program_along(void **state) {
    (void)state;
    int said = -1;
    pid_t pid = start_guarded(false, "trap '' TERM; echo up; while :; do sleep 0.05; done", &said);
    read_word(said);
    kill(pid, SIGTERM);
    assert_int_equal(WEXITSTATUS(status_of(pid)), 128 + SIGKILL);
    await_end(said);
}

static void it_ends_with_the_process_that_started_it(void **state) {
    (void)state;
    int said = -1;
    pid_t owner = start_guarded(true, "trap '' TERM; echo up; while :; do sleep 0.05; done", &said);
    read_word(said);
    kill(owner, SIGKILL);
    (void)status_of(owner);
    await_end(said);
}

static void a_program_that_is_not_there_is_named(void **state) {
    (void)state;
    struct err err = {0};
    struct proc_result r = {0};
    const char *argv[] = {getenv("SNAFFLE_GUEST"), "guard", "/no/such/program", "none", NULL};
    assert_ok(proc_run(&(struct proc_options){.argv = argv, .deadline = deadline_in_s(PATIENCE_S)},
                       &r, &err),
              &err);
    assert_int_equal(r.exit_code, 127);
    assert_string_equal(buf_cstr(&r.err),
                        "cannot start '/no/such/program': No such file or directory\n");
    proc_result_deinit(&r);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_status_is_the_programs),
        cmocka_unit_test(told_to_end_it_takes_the_program_along),
        cmocka_unit_test(it_ends_with_the_process_that_started_it),
        cmocka_unit_test(a_program_that_is_not_there_is_named),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
