/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <sys/resource.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/ground.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* Whole rollouts in a real sandbox; the agent is a shell script. */

static void assert_outcome(const struct rollout_result *r, const char *status, const char *cause) {
    if (strcmp(r->status, status) != 0 || strcmp(r->cause ? r->cause : "-", cause) != 0) {
        fail_msg("want %s/%s, got %s/%s: %s", status, cause, r->status, r->cause ? r->cause : "-",
                 r->error ? r->error : "");
    }
}

static void assert_reward(const struct rollout_result *r, double want) {
    assert_true(r->has_reward);
    assert_float_equal((float)r->reward, (float)want, 0.0001F);
}

static json_int_t int_at(const struct rollout_result *r, const char *field) {
    return json_integer_value(json_object_get(r->json, field));
}

static void setup_is_over_before_the_agent_begins(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(*state,
               "{'instruction': 'cat ready > seen; date +%s > agent-began',"
               " 'setup': ['sleep 0.3; echo first > ready', 'echo second >> ready'],"
               " 'files': {'given.txt': 'given'},"
               " 'verify': ['grep -q first seen', 'grep -q second seen', 'grep -q given given.txt',"
               "            'test -e absent']}",
               NULL, &r);
    assert_outcome(&r, "ok", "-");
    assert_reward(&r, 0.75);
    assert_int_equal(json_array_size(json_object_get(r.json, "setup_results")), 2);
    assert_int_equal(json_array_size(json_object_get(r.json, "verify_results")), 4);
    const json_t *files = json_object_get(r.json, "files");
    assert_string_equal(json_string_value(json_object_get(files, "/home/user/workdir/seen")),
                        "first\nsecond\n");
    AUTO_FREE char *kept = ground_read(&r, "files/seen");
    assert_string_equal(kept, "first\nsecond\n");
    static const char *const phases[] = {"create", "install", "setup",   "agent",
                                         "verify", "collect", "teardown"};
    for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
        assert_true(json_is_number(json_object_get(json_object_get(r.json, "phases"), phases[i])));
    }
    rollout_result_deinit(&r);
}

static void a_failed_setup_ends_the_rollout_without_agent_or_grade(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(*state,
               "{'instruction': 'echo ran > ran', 'setup': ['echo on out; echo on err >&2; exit 9',"
               " 'echo never'], 'verify': ['true']}",
               NULL, &r);
    assert_outcome(&r, "failed", "setup_failed");
    assert_false(r.has_reward);
    assert_non_null(strstr(r.error, "setup command failed (exit 9)"));
    const json_t *results = json_object_get(r.json, "setup_results");
    assert_int_equal(json_array_size(results), 1);
    const json_t *first = json_array_get(results, 0);
    assert_string_equal(json_string_value(json_object_get(first, "stdout")), "on out\n");
    assert_string_equal(json_string_value(json_object_get(first, "stderr")), "on err\n");
    assert_int_equal(json_array_size(json_object_get(r.json, "verify_results")), 0);
    assert_null(json_object_get(json_object_get(r.json, "phases"), "agent"));
    assert_null(json_object_get(json_object_get(r.json, "files"), "/home/user/workdir/ran"));
    rollout_result_deinit(&r);
}

static void an_agent_that_exits_with_an_error_is_graded(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(*state,
               "{'instruction': 'echo done > out; echo last words; exit 3',"
               " 'verify': ['grep -q done out']}",
               NULL, &r);
    assert_outcome(&r, "ok", "agent_crash");
    assert_reward(&r, 1);
    assert_int_equal(int_at(&r, "agent_exit_code"), 3);
    AUTO_FREE char *log = ground_read(&r, "agent.log");
    assert_string_equal(log, "last words\n");
    assert_string_equal(json_string_value(json_object_get(r.json, "agent_log_tail")),
                        "last words\n");
    rollout_result_deinit(&r);
}

static void an_agent_out_of_time_is_dead_with_all_its_children_when_verify_runs(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    int64_t began = clock_ms();
    ground_run(
        *state,
        "{'instruction': 'setsid bash -c \\\"while :; do echo x >> ticks; sleep 0.02; done\\\""
        " & sleep 600', 'limits': {'agent_s': 1},"
        " 'verify': ['a=$(wc -c < ticks); sleep 0.3; test $a = $(wc -c < ticks)',"
        "            'test -s ticks']}",
        NULL, &r);
    assert_outcome(&r, "ok", "agent_timeout");
    assert_reward(&r, 1);
    assert_true(json_is_null(json_object_get(r.json, "agent_exit_code")));
    assert_true(clock_ms() - began < 60000);
    rollout_result_deinit(&r);
}

static void what_an_agent_left_running_when_it_ended_is_dead_too(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(
        *state,
        "{'instruction': 'setsid bash -c \\\"while :; do echo x >> ticks; sleep 0.02; done\\\""
        " > /dev/null 2>&1 & sleep 0.2',"
        " 'verify': ['a=$(wc -c < ticks); sleep 0.3; test $a = $(wc -c < ticks)']}",
        NULL, &r);
    assert_outcome(&r, "ok", "-");
    assert_reward(&r, 1);
    rollout_result_deinit(&r);
}

static void the_agent_knows_its_end_and_not_the_key(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct rollout_result r = {0};
    ground_run(
        g,
        "{'instruction': 'left=$((SNAFFLE_DEADLINE - $(date +%s))); echo $left > left;"
        " env > environment; cat /proc/self/environ > raw; grep -r -a sk-real /proc/1/ ~"
        " --include=environ --include=cmdline --include=*.json -l 2>/dev/null > found; true',"
        " 'limits': {'agent_s': 100},"
        " 'verify': ['l=$(cat left); test $l -gt 90 && test $l -le 101', 'test ! -s found',"
        " 'grep -q ^TOKEN=................................$ environment']}",
        NULL, &r);
    assert_outcome(&r, "ok", "-");
    assert_reward(&r, 1);
    ground_assert_nowhere(g->dir, GROUND_KEY);
    rollout_result_deinit(&r);
}

static void another_home_is_honoured_everywhere(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    g->config.agent.sandbox_home = "/home/other";
    struct rollout_result r = {0};
    ground_run(g,
               "{'instruction': 'pwd > where', 'setup': ['pwd > set-up-where'],"
               " 'verify': ['test $(cat where) = /home/other/workdir',"
               " 'test $(cat set-up-where) = /home/other/workdir',"
               " 'test $PWD = /home/other/workdir', 'echo 0.5 > ../logs/verifier/reward.txt']}",
               NULL, &r);
    assert_outcome(&r, "ok", "-");
    assert_reward(&r, 0.5);
    assert_non_null(json_object_get(json_object_get(r.json, "files"), "/home/other/workdir/where"));
    rollout_result_deinit(&r);
}

static void an_engine_that_answers_nothing_is_no_bad_grade(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(*state,
               "{'instruction': 'exec 3<>/dev/tcp/127.0.0.1/7000; printf \\\"POST "
               "/v1/chat/completions HTTP/1.1\\\\r\\\\nHost: x\\\\r\\\\nContent-Type: "
               "application/json\\\\r\\\\nContent-Length: 28\\\\r\\\\nConnection: "
               "close\\\\r\\\\n\\\\r\\\\n{\\\\\\\"model\\\\\\\":\\\\\\\"m\\\\\\\","
               "\\\\\\\"messages\\\\\\\":[] }\\\" >&3; "
               "cat <&3; exit 1', 'verify': ['false']}",
               NULL, &r);
    assert_outcome(&r, "failed", "upstream_down");
    assert_false(r.has_reward);
    assert_int_equal(int_at(&r, "calls"), 1);
    rollout_result_deinit(&r);
}

static void black_box_records_nothing_and_counts_the_calls(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    g->options.mode = ROLLOUT_BLACK_BOX;
    struct rollout_result r = {0};
    ground_run(g, "{'instruction': 'true', 'verify': ['true']}", NULL, &r);
    assert_outcome(&r, "ok", "-");
    assert_string_equal(json_string_value(json_object_get(r.json, "capture_level")), "none");
    assert_int_equal(json_array_size(json_object_get(r.json, "proxy_turns")), 0);
    rollout_result_deinit(&r);
}

static void a_task_without_verify_has_no_reward(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(*state,
               "{'instruction': 'mkdir -p ../logs/verifier; echo 1 > "
               "../logs/verifier/reward.txt'}",
               NULL, &r);
    assert_outcome(&r, "ok", "-");
    assert_false(r.has_reward);
    rollout_result_deinit(&r);
}

static void odd_bytes_and_many_files_come_out_as_valid_json(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(
        *state,
        "{'instruction': 'printf \\\"\\\\377\\\\376bad\\\" > binary; printf \\\"a\\\\0b\\\" > nul;"
        " for i in $(seq 40); do echo $i > file$i; done; mkdir -p sub/deep; echo s > sub/s;"
        " echo d > sub/deep/d; head -c 70000 /dev/zero > large; mkfifo pipe; ln -s /etc/passwd"
        " link; head -c 5000 /dev/urandom; printf \\\"\\\\377end\\\"',"
        " 'verify': ['printf \\\"\\\\377\\\\376\\\"; true']}",
        NULL, &r);
    assert_outcome(&r, "ok", "-");
    const json_t *files = json_object_get(r.json, "files");
    const json_t *extra = json_object_get(r.json, "files_extra");
    assert_int_equal(json_object_size(files) + json_array_size(extra), 32);
    assert_int_equal(json_array_size(extra), 1); /* `binary`; `nul` comes after the 32nd. */
    assert_null(json_object_get(files, "/home/user/workdir/large"));
    assert_null(json_object_get(files, "/home/user/workdir/link"));
    assert_null(json_object_get(files, "/home/user/workdir/sub/deep/d"));
    rollout_result_deinit(&r);
}

static void a_budget_cuts_the_agents_time(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    g->options.limits = (struct rollout_limits){.budget_s = 90, .verify_s = 50};
    struct rollout_result r = {0};
    int64_t began = clock_ms();
    ground_run(g, "{'instruction': 'sleep 600', 'verify': ['true']}", NULL, &r);
    assert_outcome(&r, "ok", "agent_timeout");
    assert_reward(&r, 1);
    assert_true(clock_ms() - began < 90000); /* It gets what is left less verify and 30 s. */
    rollout_result_deinit(&r);
}

static bool has_finding(const struct rollout_result *r, const char *code) {
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(r->json, "findings"), i, one) {
        if (strcmp(json_string_value(json_object_get(one, "code")), code) == 0) {
            return true;
        }
    }
    return false;
}

static void setup_has_the_outside_and_the_agent_has_not(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    ground_run(
        *state,
        "{'instruction': 'cp /proc/net/dev agent-net', 'setup': ['cp /proc/net/dev setup-net'],"
        " 'verify': ['test $(tail -n +3 agent-net | wc -l) = 1',"
        " 'test $(tail -n +3 /proc/net/dev | wc -l) = 1',"
        " 'test $(tail -n +3 setup-net | wc -l) = 2']}",
        NULL, &r);
    assert_outcome(&r, "ok", "-");
    /* Where the machine can't give setup the outside, the result says so. */
    assert_reward(&r, has_finding(&r, "setup_offline") ? 2.0 / 3 : 1);
    rollout_result_deinit(&r);
}

/* Ten calls that nobody answers, without end. */
static const char calling_for_ever[] =
    "{'instruction': 'while :; do exec 3<>/dev/tcp/127.0.0.1/7000; printf \\\"POST "
    "/v1/chat/completions HTTP/1.1\\\\r\\\\nHost: x\\\\r\\\\nContent-Length: "
    "28\\\\r\\\\nConnection: "
    "close\\\\r\\\\n\\\\r\\\\n{\\\\\\\"model\\\\\\\":\\\\\\\"m\\\\\\\",\\\\\\\"messages\\\\\\\":[0]"
    "}\\\" >&3; cat <&3; sleep 0.05; done', "
    "'verify': ['true'], 'limits': {'agent_s': 60}}";

static void an_engine_that_is_down_for_long_stops_the_agent(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    g->options.limits.upstream_down_s = 1;
    struct rollout_result r = {0};
    ground_run(g, calling_for_ever, NULL, &r);
    assert_outcome(&r, "failed", "upstream_down");
    assert_non_null(strstr(r.error, "calls in a row"));
    assert_false(r.has_reward);
    assert_true(int_at(&r, "calls") >= 10);
    assert_int_equal(json_array_size(json_object_get(r.json, "proxy_turns")), int_at(&r, "calls"));
    rollout_result_deinit(&r);
}

/* While the agent runs this process can't write to files. */
static void fill_the_disk(void *arg, const struct rollout_event *e) {
    struct rlimit limit = *(struct rlimit *)arg;
    if (e->phase == ROLLOUT_PHASE_AGENT && strstr(e->text, "agent running")) {
        limit.rlim_cur = 1;
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void calls_that_cannot_be_recorded_end_the_rollout(void **state) {
    NEED_SANDBOX();
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    assert_int_equal(sigaction(SIGXFSZ, &ignore, &before), 0);
    struct rollout_control control = {.progress = fill_the_disk, .progress_arg = &limit};
    struct rollout_result r = {0};
    ground_run(*state, calling_for_ever, &control, &r);
    assert_int_equal(sigaction(SIGXFSZ, &before, NULL), 0);
    assert_outcome(&r, "failed", "capture_fault");
    assert_non_null(strstr(r.error, "the journal refused a record")); /* Seen while it ran. */
    assert_false(r.has_reward);
    rollout_result_deinit(&r);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ground_set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(setup_is_over_before_the_agent_begins),
    CASE(a_failed_setup_ends_the_rollout_without_agent_or_grade),
    CASE(an_agent_that_exits_with_an_error_is_graded),
    CASE(an_agent_out_of_time_is_dead_with_all_its_children_when_verify_runs),
    CASE(what_an_agent_left_running_when_it_ended_is_dead_too),
    CASE(the_agent_knows_its_end_and_not_the_key),
    CASE(another_home_is_honoured_everywhere),
    CASE(an_engine_that_answers_nothing_is_no_bad_grade),
    CASE(black_box_records_nothing_and_counts_the_calls),
    CASE(a_task_without_verify_has_no_reward),
    CASE(odd_bytes_and_many_files_come_out_as_valid_json),
    CASE(a_budget_cuts_the_agents_time),
    CASE(setup_has_the_outside_and_the_agent_has_not),
    CASE(an_engine_that_is_down_for_long_stops_the_agent),
    CASE(calls_that_cannot_be_recorded_end_the_rollout),
};

int main(int argc, char **argv) {
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
