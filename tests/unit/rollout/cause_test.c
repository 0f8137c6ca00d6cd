/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/cause.h"

#include "tests/testing.h"

static const struct expected {
    enum rollout_cause cause;
    const char *word;
    const char *status;
    bool graded_always;
    bool graded_clean;
    unsigned attempts; /* With two retries allowed. */
} table[] = {
    {ROLLOUT_CAUSE_NONE, NULL, "ok", true, true, 1},
    {ROLLOUT_CAUSE_SETUP_FAILED, "setup_failed", "failed", false, false, 1},
    {ROLLOUT_CAUSE_AGENT_CRASH, "agent_crash", "ok", true, false, 1},
    {ROLLOUT_CAUSE_AGENT_TIMEOUT, "agent_timeout", "ok", true, false, 1},
    {ROLLOUT_CAUSE_AGENT_NO_CALLS, "agent_no_calls", "failed", false, false, 2},
    {ROLLOUT_CAUSE_SANDBOX_CREATE, "sandbox_create", "failed", false, false, 3},
    {ROLLOUT_CAUSE_SANDBOX_LOST, "sandbox_lost", "failed", false, false, 3},
    {ROLLOUT_CAUSE_QUOTA, "quota", "failed", false, false, 3},
    {ROLLOUT_CAUSE_AGENT_INSTALL, "agent_install", "failed", false, false, 3},
    {ROLLOUT_CAUSE_UPSTREAM_DOWN, "upstream_down", "failed", false, false, 3},
    {ROLLOUT_CAUSE_CAPTURE_FAULT, "capture_fault", "failed", false, false, 3},
    {ROLLOUT_CAUSE_VERIFY_TIMEOUT, "verify_timeout", "failed", false, false, 1},
    {ROLLOUT_CAUSE_VERIFY_CRASH, "verify_crash", "failed", false, false, 1},
    {ROLLOUT_CAUSE_REWARD_UNREADABLE, "reward_unreadable", "failed", false, false, 1},
    {ROLLOUT_CAUSE_CANCELLED, NULL, "cancelled", false, false, 1},
    {ROLLOUT_CAUSE_INTERNAL, "internal", "failed", false, false, 1},
};

static unsigned attempts_of(enum rollout_cause cause) {
    unsigned n = 1;
    while (rollout_cause_retried(cause, n, /* retries= */ 2)) {
        n++;
    }
    return n;
}

static void every_cause_has_the_status_grading_and_attempts_of_the_table(void **state) {
    (void)state;
    assert_int_equal(sizeof table / sizeof *table, ROLLOUT_CAUSE_COUNT);
    for (size_t i = 0; i < ROLLOUT_CAUSE_COUNT; i++) {
        const struct expected *e = &table[i];
        const struct rollout_cause_row *row = rollout_cause_row(e->cause);
        assert_string_equal(row->word ? row->word : "-", e->word ? e->word : "-");
        assert_string_equal(row->status, e->status);
        assert_int_equal(rollout_cause_graded(e->cause, ROLLOUT_VERIFY_ALWAYS), e->graded_always);
        assert_int_equal(rollout_cause_graded(e->cause, ROLLOUT_VERIFY_CLEAN), e->graded_clean);
        assert_int_equal(attempts_of(e->cause), e->attempts);
    }
}

static void an_agent_without_calls_gets_one_more_attempt_without_being_asked(void **state) {
    (void)state;
    assert_true(rollout_cause_retried(ROLLOUT_CAUSE_AGENT_NO_CALLS, 1, /* retries= */ 0));
    assert_false(rollout_cause_retried(ROLLOUT_CAUSE_AGENT_NO_CALLS, 2, /* retries= */ 9));
    assert_false(rollout_cause_retried(ROLLOUT_CAUSE_SANDBOX_LOST, 1, /* retries= */ 0));
}

static void the_first_failure_stands_and_an_ok_ending_may_still_fail(void **state) {
    (void)state;
    assert_true(rollout_cause_replaces(ROLLOUT_CAUSE_NONE, ROLLOUT_CAUSE_AGENT_CRASH));
    assert_true(rollout_cause_replaces(ROLLOUT_CAUSE_AGENT_TIMEOUT, ROLLOUT_CAUSE_VERIFY_TIMEOUT));
    assert_true(rollout_cause_replaces(ROLLOUT_CAUSE_AGENT_CRASH, ROLLOUT_CAUSE_CANCELLED));
    assert_false(rollout_cause_replaces(ROLLOUT_CAUSE_AGENT_TIMEOUT, ROLLOUT_CAUSE_AGENT_CRASH));
    assert_false(rollout_cause_replaces(ROLLOUT_CAUSE_SETUP_FAILED, ROLLOUT_CAUSE_SANDBOX_LOST));
    assert_false(rollout_cause_replaces(ROLLOUT_CAUSE_CANCELLED, ROLLOUT_CAUSE_SANDBOX_LOST));
}

static void an_error_means_what_its_phase_makes_of_it(void **state) {
    (void)state;
    static const struct {
        enum rollout_phase phase;
        int code;
        enum rollout_cause want;
    } cases[] = {
        {ROLLOUT_PHASE_CREATE, ERR_TIMEOUT, ROLLOUT_CAUSE_SANDBOX_CREATE},
        {ROLLOUT_PHASE_CREATE, ERR_LOST, ROLLOUT_CAUSE_SANDBOX_CREATE},
        {ROLLOUT_PHASE_CREATE, ERR_QUOTA, ROLLOUT_CAUSE_QUOTA},
        {ROLLOUT_PHASE_CREATE, ERR_CANCELLED, ROLLOUT_CAUSE_CANCELLED},
        {ROLLOUT_PHASE_INSTALL, ERR_DENIED, ROLLOUT_CAUSE_AGENT_INSTALL},
        {ROLLOUT_PHASE_INSTALL, ERR_LOST, ROLLOUT_CAUSE_SANDBOX_LOST},
        {ROLLOUT_PHASE_SETUP, ERR_STATE, ROLLOUT_CAUSE_SETUP_FAILED},
        {ROLLOUT_PHASE_SETUP, ERR_TIMEOUT, ROLLOUT_CAUSE_SETUP_FAILED},
        {ROLLOUT_PHASE_SETUP, ERR_LOST, ROLLOUT_CAUSE_SANDBOX_LOST},
        {ROLLOUT_PHASE_AGENT, ERR_UPSTREAM, ROLLOUT_CAUSE_UPSTREAM_DOWN},
        {ROLLOUT_PHASE_AGENT, ERR_SYS, ROLLOUT_CAUSE_INTERNAL},
        {ROLLOUT_PHASE_VERIFY, ERR_TIMEOUT, ROLLOUT_CAUSE_VERIFY_TIMEOUT},
        {ROLLOUT_PHASE_VERIFY, ERR_SYS, ROLLOUT_CAUSE_VERIFY_CRASH},
        {ROLLOUT_PHASE_VERIFY, ERR_LOST, ROLLOUT_CAUSE_SANDBOX_LOST},
        {ROLLOUT_PHASE_VERIFY, ERR_INTERNAL, ROLLOUT_CAUSE_INTERNAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(rollout_cause_of(cases[i].phase, cases[i].code), cases[i].want);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_cause_has_the_status_grading_and_attempts_of_the_table),
    cmocka_unit_test(an_agent_without_calls_gets_one_more_attempt_without_being_asked),
    cmocka_unit_test(the_first_failure_stands_and_an_ok_ending_may_still_fail),
    cmocka_unit_test(an_error_means_what_its_phase_makes_of_it),
};

RUN_TESTS(tests)
