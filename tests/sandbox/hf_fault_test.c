/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/sandbox/contract.h"
#include "tests/sandbox/hf_cases.h"
#include "tests/sandbox/hf_hub.h"

/* What the hf backend does when the Hub, the proxy or the job misbehaves: the right error, and no
 * sandbox alive at the end. */

static bool is_first; /* Generation. */

static const struct sandbox_spec plain = {
    .owner = "test", .run = CONTRACT_RUN, .rollout = "fault", .lifetime_s = 600};

static int create(struct sandbox **out, double seconds, struct err *err) {
    return sandbox_create(&sandbox_hf, &plain, deadline_in_s(seconds), NULL, out, err);
}

static struct sandbox *created(void) {
    struct sandbox *s = NULL;
    struct err err = {0};
    assert_ok(create(&s, PATIENCE_S, &err), &err);
    return s;
}

static void assert_none_alive(void) {
    deadline_ms until = deadline_in_s(PATIENCE_S);
    while (hub_alive() > 0 && !deadline_passed(until)) {
        clock_sleep_ms(20);
    }
    assert_int_equal(hub_alive(), 0);
}

static int calm(void **state) {
    (void)state;
    hub_set_faults("[]");
    return 0;
}

static void refusals_of_the_hub_say_what_to_do(void **state) {
    (void)state;
    static const struct {
        const char *rule;
        int code;
        const char *words;
    } rows[] = {
        {"[{\"method\":\"POST\",\"status\":402,\"body\":{\"error\":\"Pre-paid credit balance is "
         "insufficient\"}}]",
         ERR_ENVIRONMENT, "Pre-paid credit balance is insufficient (add credit"},
        {"[{\"method\":\"POST\",\"status\":403,\"body\":{\"error\":\"missing permissions: "
         "job.write\"}}]",
         ERR_ENVIRONMENT, "job.write (the token needs the right"},
        {"[{\"method\":\"POST\",\"status\":400,\"body\":{\"errors\":[{\"message\":\"no such "
         "flavor\"}]}}]",
         ERR_INPUT, "no such flavor"},
        {"[{\"method\":\"POST\",\"status\":502,\"body\":\"<html>bad gateway</html>\"}]",
         ERR_UPSTREAM, "HTTP 502"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct sandbox *s = NULL;
        struct err err = {0};
        hub_set_faults(rows[i].rule);
        assert_err(create(&s, PATIENCE_S, &err), rows[i].code, &err, rows[i].words);
    }
    assert_none_alive();
}

static void a_rate_limit_is_waited_out_when_there_is_time(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    hub_set_faults("[{\"method\":\"POST\",\"status\":429,\"headers\":{\"Retry-After\":\"1\"},"
                   "\"body\":{\"error\":\"slow down\"}}]");
    assert_err(create(&s, PATIENCE_S, &err), ERR_QUOTA, &err, "slow down");
    int64_t begun = clock_ms();
    assert_ok(create(&s, PATIENCE_S, &err), &err); /* The next attempt waits for its turn. */
    assert_true(clock_ms() - begun >= 500);
    contract_end(s);
    assert_none_alive();
}

static void a_create_whose_answer_is_lost_leaves_no_sandbox(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    hub_set_faults("[{\"method\":\"POST\",\"path\":\"/api/jobs/\",\"drop_answer\":true}]");
    assert_err(create(&s, PATIENCE_S, &err), ERR_CLOSED, &err, "");
    assert_none_alive();
}

static void a_lost_answer_leaves_none_though_the_hub_refuses_for_a_while(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    hub_set_faults(
        "[{\"method\":\"POST\",\"path\":\"/api/jobs/alice\",\"drop_answer\":true},"
        "{\"method\":\"GET\",\"face\":\"api\",\"path\":\"/api/jobs/\",\"times\":2,\"status\":429,"
        "\"headers\":{\"Retry-After\":\"1\"},\"body\":{\"error\":\"slow down\"}},"
        "{\"method\":\"POST\",\"path\":\"/cancel\",\"times\":3,\"status\":500}]");
    assert_err(create(&s, PATIENCE_S, &err), ERR_CLOSED, &err, "");
    assert_none_alive();
}

static void a_job_that_dies_at_its_start_is_told_with_its_log(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    hub_set_faults("[{\"method\":\"POST\",\"path\":\"/api/jobs/\",\"job\":\"die\"}]");
    assert_err(create(&s, PATIENCE_S, &err), ERR_LOST, &err, "giving up");
    assert_none_alive();
}

static void a_job_that_never_starts_is_cancelled(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    hub_set_faults("[{\"method\":\"POST\",\"path\":\"/api/jobs/\",\"job\":\"never_start\"}]");
    assert_err(create(&s, 1, &err), ERR_TIMEOUT, &err, "");
    assert_none_alive();
}

static void a_job_without_an_address_is_found_by_its_id(void **state) {
    (void)state;
    struct sandbox *s = NULL;
    struct err err = {0};
    hub_set_faults("[{\"method\":\"POST\",\"path\":\"/api/jobs/\",\"job\":\"hide_url\"}]");
    assert_true(create(&s, 1, &err) < 0); /* hf.jobs can't be reached from here. */
    assert_none_alive();
}

#define EXEC "\"face\":\"proxy\",\"path\":\"/v1/exec\""

static void nine_failures_in_a_row_do_not_lose_a_command(void **state) {
    (void)state;
    struct sandbox *s = created();
    hub_set_faults("[{" EXEC ",\"times\":9,\"drop\":true},{\"face\":\"proxy\",\"path\":\"/exit\","
                   "\"times\":9,\"drop\":true}]");
    assert_string_equal(contract_says(s, "sleep 0.3; echo whole"), "whole\n");
    contract_end(s);
    assert_none_alive();
}

/* Begun, and then never heard of again by the call that began it: its files tell. */
static void an_answer_that_is_cut_anywhere_loses_nothing(void **state) {
    (void)state;
    static const char *const rules[] = {
        "[{" EXEC ",\"times\":-1,\"cut_after\":40}]",
        "[{" EXEC ",\"times\":-1,\"cut_after\":300}]",
        "[{" EXEC ",\"times\":-1,\"cut_after\":400},{\"face\":\"proxy\",\"path\":\"/out\","
        "\"times\":3,\"cut_after\":40},{\"face\":\"proxy\",\"path\":\"/exit\",\"times\":4,"
        "\"status\":502,\"body\":\"<html>\"}]",
        "[{" EXEC ",\"times\":-1,\"drop_answer\":true}]",
        "[{" EXEC ",\"times\":2,\"status\":408,\"body\":\"\"}]",
    };
    struct sandbox *s = created();
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        hub_set_faults(rules[i]);
        assert_string_equal(contract_says(s, "sleep 0.2; echo x >>ran; seq 9 | tr -d '\\n'"),
                            "123456789");
    }
    hub_set_faults("[]");
    assert_string_equal(contract_says(s, "grep -c . ran"), "5\n");
    contract_end(s);
    assert_none_alive();
}

static unsigned requests(void) {
    struct err err = {0};
    AUTO_BUF struct buf log = {0};
    assert_ok(file_read(hub_log_path(), 64u << 20, &log, &err), &err);
    unsigned n = 0;
    struct sv rest = buf_sv(&log);
    for (size_t at; (at = sv_find(rest, SV("\"event\":\"proxy\""))) != (size_t)-1; n++) {
        rest = sv_cut(rest, at + 1);
    }
    return n;
}

/* What is told at the very end may be lost by the first generation: then the files cost three. */
static void a_command_costs_one_request_and_leaves_no_files_behind(void **state) {
    (void)state;
    struct sandbox *s = created();
    AUTO_FREE char *typed = mem_strdup("typed");
    contract_says(s, "true");
    unsigned before = requests();
    for (int i = 0; i < 10; i++) {
        struct sandbox_output out = {0};
        struct err err = {0};
        struct sandbox_exec what = {.shell = "cat; echo err >&2", .input = sv_from(typed)};
        assert_ok(sandbox_exec(s, &what, &out, &err), &err);
        assert_string_equal(buf_cstr(&out.out), "typed");
        assert_string_equal(buf_cstr(&out.err), "err\n");
        sandbox_output_deinit(&out);
    }
    unsigned spent = requests() - before;
    assert_true(spent >= 10 && spent <= (is_first ? 40 : 10));
    assert_string_equal(contract_says(s, "ls -d /.snaffle-*/[0-9]* | wc -l"), "1\n");
    contract_end(s);
    assert_none_alive();
}

/* Longer than any call waits for an answer, so each of these costs half a minute. */
static void a_call_that_stalls_is_given_up_and_loses_nothing(void **state) {
    (void)state;
    struct sandbox *s = created();
    hub_set_faults("[{" EXEC
                   ",\"stall\":true},{\"face\":\"proxy\",\"path\":\"/exit\",\"drop\":true}]");
    assert_string_equal(contract_says(s, "echo x >>ran; cat ran"), "x\n");
    contract_end(s);
    assert_none_alive();
}

static void a_server_that_stalls_at_first_is_waited_for(void **state) {
    (void)state;
    hub_set_faults("[{\"face\":\"proxy\",\"path\":\"/health\",\"stall\":true}]");
    struct sandbox *s = created();
    contract_end(s);
    assert_none_alive();
}

static void a_start_whose_answer_is_lost_runs_once(void **state) {
    (void)state;
    struct sandbox *s = created();
    hub_set_faults("[{\"face\":\"proxy\",\"path\":\"/v1/exec\",\"drop_answer\":true}]");
    assert_string_equal(contract_says(s, "echo x >>ran; echo done"), "done\n");
    hub_set_faults("[]");
    assert_string_equal(contract_says(s, "cat ran"), "x\n");
    contract_end(s);
    assert_none_alive();
}

static void a_sandbox_that_vanishes_under_a_command_is_lost_and_never_exit_0(void **state) {
    (void)state;
    struct sandbox *s = created();
    struct sandbox_output out = {0};
    struct err err = {0};
    hub_set_faults("[{" EXEC ",\"cut_after\":300},{\"face\":\"proxy\",\"path\":\"/exit\","
                   "\"skip\":1,\"job\":\"vanish\"},{" EXEC ",\"times\":9,\"drop\":true}]");
    struct sandbox_exec what = {.shell = "sleep 60", .timeout_s = 120};
    assert_err(sandbox_exec(s, &what, &out, &err), ERR_LOST, &err, "torn down");
    sandbox_free(s);
    assert_none_alive();
}

/* A rollout looks at its clock between two waits, each too short for ten failures. */
static void a_sandbox_that_vanishes_under_a_job_is_lost_however_short_the_waits(void **state) {
    (void)state;
    struct sandbox *s = created();
    struct sandbox_job *job = NULL;
    struct err err = {0};
    int code = 0;
    int r = ERR_TIMEOUT;
    assert_ok(sandbox_start(s, &(struct sandbox_exec){.shell = "sleep 60"}, &job, &err), &err);
    hub_set_faults("[{" EXEC ",\"job\":\"vanish\"}]");
    deadline_ms until = deadline_in_s(PATIENCE_S);
    while (r == ERR_TIMEOUT && !deadline_passed(until)) {
        r = sandbox_job_wait(job, deadline_in_ms(300), NULL, &code, &err);
    }
    assert_err(r, ERR_LOST, &err, "torn down");
    sandbox_job_free(job);
    sandbox_free(s);
    assert_none_alive();
}

static void a_kill_that_fails_is_tried_again(void **state) {
    (void)state;
    struct sandbox *s = created();
    hub_set_faults("[{\"method\":\"POST\",\"path\":\"/cancel\",\"times\":2,\"status\":500}]");
    contract_end(s);
    assert_none_alive();
}

static void what_a_killed_process_left_is_swept_and_no_living_one_s(void **state) {
    (void)state;
    struct sandbox *mine = created();
    struct err err = {0};
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sandbox *s = NULL;
        int made = create(&s, PATIENCE_S, &err);
        ssize_t n = write(ready[1], &made, sizeof made);
        pause();
        _exit(n < 0);
    }
    int made = -1;
    assert_int_equal(read(ready[0], &made, sizeof made), sizeof made);
    assert_int_equal(made, 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(hub_alive(), 2);
    unsigned removed = 0;
    assert_ok(sandbox_hf.sweep(NULL, /* dry_run= */ true, &removed, &err), &err);
    assert_int_equal(removed, 1);
    assert_int_equal(hub_alive(), 2);
    removed = 0;
    assert_ok(sandbox_hf.sweep(NULL, /* dry_run= */ false, &removed, &err), &err);
    assert_int_equal(removed, 1);
    assert_int_equal(hub_alive(), 1);
    assert_string_equal(contract_says(mine, "echo alive"), "alive\n");
    contract_end(mine);
    assert_none_alive();
}

static void secrets_are_in_no_log_and_in_no_command(void **state) {
    (void)state;
    struct sandbox *s = created();
    struct err err = {0};
    AUTO_BUF struct buf log = {0};
    assert_string_equal(contract_says(s, "env | grep -c -e hf_testtoke[n] -e SBX_TOKE[N]"), "0\n");
    assert_string_equal(contract_says(s, "cat /proc/[0-9]*/cmdline | grep -c hf_testtoke[n]"),
                        "0\n");
    assert_ok(file_read(hub_log_path(), 64u << 20, &log, &err), &err);
    assert_true(sv_find(buf_sv(&log), SV("hf_testtoken")) == (size_t)-1);
    assert_true(sv_find(buf_sv(&log), SV("\"expect\":true")) == (size_t)-1);
    assert_true(sv_find(buf_sv(&log), SV("\"chunked\":true")) == (size_t)-1);
    contract_end(s);
}

static void another_process_s_sandbox_is_looked_into_and_killed(void **state) {
    (void)state;
    struct sandbox *s = created();
    struct sandbox_output out = {0};
    struct err err = {0};
    bool was_alive = false;
    assert_ok(sandbox_exec_in(&sandbox_hf, sandbox_id(s),
                              &(struct sandbox_exec){.shell = "echo seen"}, &out, &err),
              &err);
    assert_string_equal(buf_cstr(&out.out), "seen\n");
    sandbox_output_deinit(&out);
    assert_ok(sandbox_kill_in(&sandbox_hf, sandbox_id(s), &was_alive, &err), &err);
    assert_true(was_alive);
    assert_none_alive();
    sandbox_free(s);
}

#define CASE(name) cmocka_unit_test_setup(name, calm)

static const struct CMUnitTest cases[] = {
    CASE(refusals_of_the_hub_say_what_to_do),
    CASE(a_rate_limit_is_waited_out_when_there_is_time),
    CASE(a_create_whose_answer_is_lost_leaves_no_sandbox),
    CASE(a_lost_answer_leaves_none_though_the_hub_refuses_for_a_while),
    CASE(a_job_that_dies_at_its_start_is_told_with_its_log),
    CASE(a_job_that_never_starts_is_cancelled),
    CASE(a_job_without_an_address_is_found_by_its_id),
    CASE(nine_failures_in_a_row_do_not_lose_a_command),
    CASE(a_start_whose_answer_is_lost_runs_once),
    CASE(an_answer_that_is_cut_anywhere_loses_nothing),
    CASE(a_command_costs_one_request_and_leaves_no_files_behind),
    CASE(a_call_that_stalls_is_given_up_and_loses_nothing),
    CASE(a_server_that_stalls_at_first_is_waited_for),
    CASE(a_sandbox_that_vanishes_under_a_command_is_lost_and_never_exit_0),
    CASE(a_sandbox_that_vanishes_under_a_job_is_lost_however_short_the_waits),
    CASE(a_kill_that_fails_is_tried_again),
    CASE(what_a_killed_process_left_is_swept_and_no_living_one_s),
    CASE(secrets_are_in_no_log_and_in_no_command),
    CASE(another_process_s_sandbox_is_looked_into_and_killed),
};

int main(int argc, char **argv) {
    is_first = argc > 1 && strstr(argv[1], "protocol=1");
    return hub_run_cases(argc, argv, cases, ARRAY_LEN(cases));
}
