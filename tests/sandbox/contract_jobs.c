/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>

#include "base/mem.h"
#include "tests/sandbox/contract.h"

static struct sandbox_job *begin(struct sandbox *s, const struct sandbox_exec *what) {
    struct sandbox_job *job = NULL;
    struct err err = {0};
    assert_ok(sandbox_start(s, what, &job, &err), &err);
    return job;
}

static struct sandbox_job *begin_shell(struct sandbox *s, const char *shell) {
    return begin(s, &(struct sandbox_exec){.shell = shell, .timeout_s = 600});
}

static int wait_for(struct sandbox_job *job) {
    struct err err = {0};
    int code = -1;
    assert_ok(sandbox_job_wait(job, deadline_in_s(PATIENCE_S), NULL, &code, &err), &err);
    return code;
}

static void a_job_goes_on_by_itself_and_gives_its_exit_code(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct sandbox_job *job = begin_shell(s, "until [ -e go ]; do sleep 0.01; done; rm go; exit 7");
    contract_says(s, "touch go");
    assert_int_equal(wait_for(job), 7);
    assert_int_equal(wait_for(job), 7);
    sandbox_job_free(job);
}

static void output_of_a_job_goes_to_files(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    contract_says(s, "echo first >both.log");
    struct sandbox_exec what = {
        .shell = "echo out; echo err >&2", .stdout_path = "both.log", .stderr_path = "both.log"};
    struct sandbox_job *job = begin(s, &what);
    assert_int_equal(wait_for(job), 0);
    sandbox_job_free(job);
    assert_string_equal(contract_says(s, "cat both.log"), "first\nout\nerr\n");
}

static void a_job_gets_its_input_whole_and_need_not_read_it(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    size_t n = 1u << 20; /* Sixteen times what a pipe holds. */
    AUTO_FREE char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'x', n);
    struct sandbox_exec what = {
        .shell = "sleep 0.1; wc -c; cat | wc -c", .stdout_path = "input.log", .input = {text, n}};
    struct sandbox_job *job = begin(s, &what);
    assert_int_equal(wait_for(job), 0);
    sandbox_job_free(job);
    assert_string_equal(contract_says(s, "cat input.log"), "1048576\n0\n");
    what.shell = "exit 4";
    job = begin(s, &what);
    assert_int_equal(wait_for(job), 4);
    sandbox_job_free(job);
}

static void a_wait_out_of_time_says_so_and_the_job_goes_on(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    int code = -1;
    struct sandbox_job *job = begin_shell(s, "sleep 31334");
    assert_err(sandbox_job_wait(job, deadline_in_ms(50), NULL, &code, &err), ERR_TIMEOUT, &err, "");
    assert_int_equal(code, -1);
    assert_int_equal(contract_count(s, "31334") > 0, 1);
    assert_ok(sandbox_job_kill(job, &err), &err);
    assert_int_equal(wait_for(job), 137);
    assert_ok(sandbox_job_kill(job, &err), &err);
    sandbox_job_free(job);
}

static void a_job_killed_by_anyone_gives_128_and_the_signal(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct sandbox_job *job = begin_shell(s, "kill -9 $$");
    assert_int_equal(wait_for(job), 137);
    sandbox_job_free(job);
}

struct throw_later {
    struct cancel *cancel;
    int64_t after_ms;
};

static void *throw_it(void *arg) {
    struct throw_later *t = arg;
    clock_sleep_ms(t->after_ms);
    cancel_throw(t->cancel);
    return NULL;
}

static void a_wait_can_be_cancelled_and_the_job_goes_on(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    int code = -1;
    struct throw_later t = {.after_ms = 50};
    pthread_t thread;
    assert_ok(cancel_new(&t.cancel, &err), &err);
    struct sandbox_job *job = begin_shell(s, "sleep 31333");
    assert_int_equal(pthread_create(&thread, NULL, throw_it, &t), 0);
    assert_err(sandbox_job_wait(job, deadline_in_s(600), t.cancel, &code, &err), ERR_CANCELLED,
               &err, "");
    pthread_join(thread, NULL);
    cancel_free(t.cancel);
    assert_true(contract_count(s, "31333") > 0);
    assert_ok(sandbox_job_kill(job, &err), &err);
    sandbox_job_free(job);
}

static void killing_a_job_ends_its_children(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    struct sandbox_job *job =
        begin_shell(s, "sleep 31332 & sleep 31332 & touch killing.ready; sleep 31332");
    contract_await_file(s, "killing.ready");
    assert_ok(sandbox_job_kill(job, &err), &err);
    assert_int_equal(wait_for(job), 137);
    assert_int_equal(contract_count(s, "31332"), 0);
    sandbox_job_free(job);
}

static void kill_all_ends_what_tried_to_get_away(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    struct sandbox_job *job = begin_shell(
        s, "trap '' TERM HUP INT; for i in 1 2 3 4 5; do (setsid nohup sleep 31331 >/dev/null 2>&1 "
           "&); done; touch ready; sleep 31331");
    contract_await_file(s, "ready");
    assert_ok(sandbox_kill_all(s, deadline_in_s(PATIENCE_S), &err), &err);
    assert_int_equal(contract_count(s, "31331"), 0);
    assert_int_equal(wait_for(job), 137);
    sandbox_job_free(job);
    /* What was killed was the agent, not the machine. */
    assert_string_equal(contract_says(s, "echo still here"), "still here\n");
    assert_ok(sandbox_kill_all(s, deadline_in_s(PATIENCE_S), &err), &err);
    contract_end(s);
}

static void many_calls_run_side_by_side(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    enum { N = 16 };
    struct sandbox_job *jobs[N];
    for (int i = 0; i < N; i++) {
        char shell[64];
        snprintf(shell, sizeof shell, "until [ -e all ]; do sleep 0.01; done; exit %d", i + 1);
        jobs[i] = begin_shell(s, shell);
    }
    contract_says(s, "touch all");
    for (int i = 0; i < N; i++) {
        assert_int_equal(wait_for(jobs[i]), i + 1);
        sandbox_job_free(jobs[i]);
    }
    contract_says(s, "rm all");
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(a_job_goes_on_by_itself_and_gives_its_exit_code),
    cmocka_unit_test(output_of_a_job_goes_to_files),
    cmocka_unit_test(a_job_gets_its_input_whole_and_need_not_read_it),
    cmocka_unit_test(a_wait_out_of_time_says_so_and_the_job_goes_on),
    cmocka_unit_test(a_job_killed_by_anyone_gives_128_and_the_signal),
    cmocka_unit_test(a_wait_can_be_cancelled_and_the_job_goes_on),
    cmocka_unit_test(killing_a_job_ends_its_children),
    cmocka_unit_test(kill_all_ends_what_tried_to_get_away),
    cmocka_unit_test(many_calls_run_side_by_side),
};
const struct contract_cases contract_jobs = {cases, ARRAY_LEN(cases)};
