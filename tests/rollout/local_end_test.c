/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/ground.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* Rollouts that end before they are done. */

static const char long_task[] =
    "{'instruction': 'echo begun; echo part > part; sleep 600', 'verify': ['true']}";

static struct rollout_session *begin(struct ground *g, struct task *task) {
    struct err err = {0};
    struct rollout_session *s = NULL;
    ground_task(long_task, task);
    assert_ok(rollout_factory_create(ground_factory(g), task, NULL, NULL, &s, &err), &err);
    assert_ok(rollout_session_start_agent(s, &err), &err);
    return s;
}

/* Waits until the agent has said something. */
static void await_log(struct rollout_session *s) {
    deadline_ms until = deadline_in_s(30);
    while (!deadline_passed(until)) {
        struct err err = {0};
        AUTO_BUF struct buf log = {0};
        if (rollout_session_fetch_log(s, &log, &err) == 0 && strstr(buf_cstr(&log), "begun")) {
            clock_sleep_ms(50); /* `part` is written by the next command. */
            return;
        }
        clock_sleep_ms(10);
    }
    fail_msg("the agent says nothing");
}

static void *close_session(void *session) {
    struct err err = {0};
    await_log(session);
    assert_ok(rollout_session_close(session, &err), &err);
    return NULL;
}

static void closing_from_another_thread_ends_a_wait_and_keeps_what_there_is(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct task task = {0};
    int code = 0;
    struct rollout_session *s = begin(g, &task);
    pthread_t t;
    pthread_create(&t, NULL, close_session, s);
    assert_err(rollout_session_wait(s, 0, &code, &err), ERR_CANCELLED, &err, "cancelled");
    pthread_join(t, NULL);
    assert_int_equal(ground_sandboxes(), 0);
    AUTO_JSON json_t *result = NULL;
    assert_ok(rollout_session_result(s, &result, &err), &err);
    assert_string_equal(json_string_value(json_object_get(result, "status")), "cancelled");
    assert_string_equal(json_string_value(json_object_get(json_object_get(result, "files"),
                                                          "/home/user/workdir/part")),
                        "part\n");
    assert_string_equal(json_string_value(json_object_get(result, "agent_log_tail")), "begun\n");
    rollout_session_free(s);
    task_deinit(&task);
}

static void a_session_that_is_only_freed_leaves_nothing_behind(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct task task = {0};
    struct rollout_session *s = begin(g, &task);
    AUTO_FREE char *result = file_join(rollout_session_dir(s), "result.json");
    rollout_session_free(s);
    assert_int_equal(ground_sandboxes(), 0);
    assert_int_equal(file_exists(result), 1);
    task_deinit(&task);
}

struct trigger {
    struct cancel *cancel;
    enum rollout_phase phase;
};

static void pull(void *arg, const struct rollout_event *e) {
    const struct trigger *t = arg;
    if (e->phase == t->phase) {
        cancel_throw(t->cancel);
    }
}

static void a_cancel_in_any_phase_is_told_as_such_and_leaves_no_sandbox(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    static const enum rollout_phase phases[] = {ROLLOUT_PHASE_CREATE, ROLLOUT_PHASE_INSTALL,
                                                ROLLOUT_PHASE_SETUP, ROLLOUT_PHASE_AGENT,
                                                ROLLOUT_PHASE_VERIFY};
    for (size_t i = 0; i < ARRAY_LEN(phases); i++) {
        struct err err = {0};
        struct trigger t = {.phase = phases[i]};
        assert_ok(cancel_new(&t.cancel, &err), &err);
        struct rollout_control control = {.cancel = t.cancel, .progress = pull, .progress_arg = &t};
        struct rollout_result r = {0};
        int64_t began = clock_ms();
        ground_run(g, "{'instruction': 'sleep 1', 'setup': ['sleep 1'], 'verify': ['sleep 1']}",
                   &control, &r);
        assert_string_equal(r.status, "cancelled");
        assert_false(r.has_reward);
        assert_int_equal(rollout_result_exit_status(&r), 130);
        assert_true(clock_ms() - began < 30000);
        rollout_result_deinit(&r);
        cancel_free(t.cancel);
    }
}

static void cancelled_hard_nothing_is_collected_and_all_is_torn_down(void **state) {
    NEED_SANDBOX();
    struct ground *g = *state;
    struct err err = {0};
    struct trigger t = {.phase = ROLLOUT_PHASE_AGENT};
    assert_ok(cancel_new(&t.cancel, &err), &err);
    struct rollout_control control = {
        .cancel = t.cancel, .hard = t.cancel, .progress = pull, .progress_arg = &t};
    struct rollout_result r = {0};
    ground_run(g, long_task, &control, &r);
    assert_string_equal(r.status, "cancelled");
    assert_int_equal(json_object_size(json_object_get(r.json, "files")), 0);
    assert_null(json_object_get(json_object_get(r.json, "phases"), "collect"));
    rollout_result_deinit(&r);
    cancel_free(t.cancel);
}

static void *roll(void *arg) {
    struct ground *g = arg;
    struct rollout_result r = {0};
    struct task task = {0};
    struct err err = {0};
    ground_task("{'instruction': 'echo $RANDOM > x; sleep 0.2', 'verify': ['test -s x']}", &task);
    int code = rollout_run(ground_factory(g), &task, NULL, NULL, &r, &err);
    bool good = code == 0 && r.has_reward && r.reward == 1;
    if (!good) {
        print_message("# %s\n", code < 0 ? err.msg : r.error ? r.error : "no reward");
    }
    rollout_result_deinit(&r);
    task_deinit(&task);
    return good ? arg : NULL;
}

static void rollouts_of_one_factory_run_side_by_side(void **state) {
    NEED_SANDBOX();
    pthread_t threads[8];
    (void)ground_factory(*state);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        pthread_create(&threads[i], NULL, roll, *state);
    }
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    assert_int_equal(ground_sandboxes(), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, ground_set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(closing_from_another_thread_ends_a_wait_and_keeps_what_there_is),
    CASE(a_session_that_is_only_freed_leaves_nothing_behind),
    CASE(a_cancel_in_any_phase_is_told_as_such_and_leaves_no_sandbox),
    CASE(cancelled_hard_nothing_is_collected_and_all_is_torn_down),
    CASE(rollouts_of_one_factory_run_side_by_side),
};

int main(int argc, char **argv) {
    world_enter(argc > 1 && strcmp(argv[1], "--as-user") == 0);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return world_leave() ? failed : 1;
}
