/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/hostile/hostile.h"

/* Agents that crash, hang, breed and will not die: each rollout ends in its time and is graded. */

#define PROCESSES 60 /* Of a sandbox here, so that the machine does not feel a bomb. */

/* Nothing of the agent lives: what it wrote does not grow, and only the verifier is there. */
#define ALL_DEAD                                                                                   \
    "'a=$(cat ticks 2>/dev/null | wc -c); sleep 0.3; test $a = $(cat ticks 2>/dev/null | wc -c)'," \
    " 'test $(ls -d /proc/[0-9]* | wc -l) -lt 8'"

static void outcome(const struct rollout_result *r, const char *agent, const char *cause) {
    hostile_assert_reward(r, agent, 1);
    assert_string_equal(r->cause ? r->cause : "-", cause);
}

static void an_agent_that_crashes_is_graded_and_its_signal_told(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    hostile_roll(*state, "process_crash.py", NULL, "{'verify': [" ALL_DEAD "]}", NULL, &r);
    outcome(&r, "process_crash.py", "agent_crash");
    assert_int_equal(json_integer_value(json_object_get(r.json, "agent_exit_code")), 139);
    rollout_result_deinit(&r);
}

static void an_agent_that_hangs_and_ignores_signals_is_ended_and_graded(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    hostile_roll(*state, "process_hang.py", NULL,
                 "{'limits': {'agent_s': 1}, 'verify': [" ALL_DEAD ", 'test -s ticks']}", NULL, &r);
    outcome(&r, "process_hang.py", "agent_timeout");
    rollout_result_deinit(&r);
}

static void limited(void **state, const char *agent, const char *limits, const char *verify) {
    struct rollout_result r = {0};
    AUTO_FREE char *task = mem_printf("{'limits': {'processes': %d%s}, 'verify': [" ALL_DEAD "%s]}",
                                      PROCESSES, limits, verify);
    hostile_roll(*state, agent, NULL, task, NULL, &r);
    hostile_assert_reward(&r, agent, 1);
    assert_true(hostile_has_finding(&r, "process_limit"));
    rollout_result_deinit(&r);
}

static void a_thousand_forks_end_at_the_limit(void **state) {
    NEED_SANDBOX();
    limited(state, "process_forks.py", "",
            ", 'read made refused < counts; test $made -lt 60 && test $refused -gt 900'");
}

static void a_fork_bomb_ends_at_the_limit(void **state) {
    NEED_SANDBOX();
    limited(state, "process_bomb.sh", ", 'agent_s': 5", "");
}

static void a_daemon_that_holds_the_output_keeps_nothing_waiting(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    int64_t began = clock_ms();
    hostile_roll(*state, "process_daemon.sh", NULL, "{'verify': [" ALL_DEAD ", 'test -s ticks']}",
                 NULL, &r);
    outcome(&r, "process_daemon.sh", "-");
    assert_true(clock_ms() - began < 60000); /* Far below the agent's 900 s. */
    AUTO_FREE char *log = ground_read(&r, "agent.log");
    assert_non_null(strstr(log, "agent is done"));
    rollout_result_deinit(&r);
}

static void zombies_and_orphans_are_gone_when_it_is_judged(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    hostile_roll(*state, "process_zombies.py", NULL, "{'verify': [" ALL_DEAD "]}", NULL, &r);
    outcome(&r, "process_zombies.py", "-");
    rollout_result_deinit(&r);
}

static void an_agent_that_kills_all_it_sees_is_graded_all_the_same(void **state) {
    NEED_SANDBOX();
    struct rollout_result r = {0};
    hostile_roll(*state, "process_murder.py", NULL,
                 "{'limits': {'processes': 60, 'agent_s': 20}, 'verify': [" ALL_DEAD "]}", NULL,
                 &r);
    hostile_assert_reward(&r, "process_murder.py", 1);
    rollout_result_deinit(&r);
}

static const struct CMUnitTest tests[] = {
    HOSTILE_CASE(an_agent_that_crashes_is_graded_and_its_signal_told),
    HOSTILE_CASE(an_agent_that_hangs_and_ignores_signals_is_ended_and_graded),
    HOSTILE_CASE(a_thousand_forks_end_at_the_limit),
    HOSTILE_CASE(a_fork_bomb_ends_at_the_limit),
    HOSTILE_CASE(a_daemon_that_holds_the_output_keeps_nothing_waiting),
    HOSTILE_CASE(zombies_and_orphans_are_gone_when_it_is_judged),
    HOSTILE_CASE(an_agent_that_kills_all_it_sees_is_graded_all_the_same),
};

HOSTILE_MAIN(tests)
