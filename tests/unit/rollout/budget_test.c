/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/budget.h"

#include "tests/testing.h"

#define assert_seconds(got, want) assert_float_equal((float)(got), (float)(want), 0.001F)

static void without_a_budget_each_phase_has_its_own_time(void **state) {
    (void)state;
    struct rollout_limits none = {0};
    struct rollout_budget b = rollout_budget_make(&none, &none, 0, true, 1000);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_CREATE, 9999999), 120);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_INSTALL, 1000), 240);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_SETUP, 1000), 300);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_AGENT, 1000), 900);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_VERIFY, 1000), 300);
    assert_seconds(b.limits.verify_command_s, 120);
    assert_seconds(rollout_budget_lifetime_s(&b), 120 + 240 + 300 + 900 + 300 + 60);
}

static void what_was_asked_wins_over_the_task_and_that_over_the_default(void **state) {
    (void)state;
    struct rollout_limits asked = {.agent_s = 10}, task = {.agent_s = 20, .setup_s = 30};
    struct rollout_budget b = rollout_budget_make(&asked, &task, 600, true, 0);
    assert_seconds(b.limits.agent_s, 10);
    assert_seconds(b.limits.setup_s, 30);
    asked.agent_s = 0;
    b = rollout_budget_make(&asked, &task, 600, true, 0);
    assert_seconds(b.limits.agent_s, 20);
    task.agent_s = 0;
    b = rollout_budget_make(&asked, &task, 600, true, 0);
    assert_seconds(b.limits.agent_s, 600);
}

static void a_budget_keeps_back_verify_and_thirty_seconds(void **state) {
    (void)state;
    struct rollout_limits asked = {.budget_s = 600, .verify_s = 100}, none = {0};
    struct rollout_budget b = rollout_budget_make(&asked, &none, 0, true, 0);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_CREATE, 0), 120);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_AGENT, 20000), 600 - 20 - 100 - 30);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_VERIFY, 450000), 100);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_VERIFY, 500000), 70);
    b = rollout_budget_make(&asked, &none, 0, /* verifies= */ false, 0);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_AGENT, 20000), 600 - 20 - 30);
}

static void a_budget_used_up_leaves_nothing_but_the_end(void **state) {
    (void)state;
    struct rollout_limits asked = {.budget_s = 60}, none = {0};
    struct rollout_budget b = rollout_budget_make(&asked, &none, 0, true, 0);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_AGENT, 0), 0);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_VERIFY, 90000), 0);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_COLLECT, 90000), BUDGET_COLLECT_S);
    assert_seconds(rollout_budget_phase_s(&b, ROLLOUT_PHASE_TEARDOWN, 90000), BUDGET_TEARDOWN_S);
    assert_seconds(rollout_budget_lifetime_s(&b), 60 + 60);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_a_budget_each_phase_has_its_own_time),
    cmocka_unit_test(what_was_asked_wins_over_the_task_and_that_over_the_default),
    cmocka_unit_test(a_budget_keeps_back_verify_and_thirty_seconds),
    cmocka_unit_test(a_budget_used_up_leaves_nothing_but_the_end),
};

RUN_TESTS(tests)
