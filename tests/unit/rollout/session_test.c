/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/session.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/config.h"
#include "rollout/factory.h"
#include "rollout/result.h"
#include "rollout/session_impl.h"
#include "rollout/task.h"
#include "tests/testing.h"
#include "tests/unit/rollout/fake_ground.h"
#include "tests/unit/rollout/fake_sandbox.h"

struct bench {
    struct fake_ground ground;
    struct config config;
    struct task task;
    struct rollout_options options;
    struct rollout_factory *factory;
};

static const char task_text[] =
    "{\"instruction\": \"do it\", \"task_id\": \"t\", \"setup\": [\"setup-1\", \"setup-2\"],"
    " \"verify\": [\"verify-1\", \"verify-2\"], \"files\": {\"a.txt\": \"a\"},"
    " \"verify_files\": {\"tests/v.py\": \"v\"}}";

static int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    struct err err = {0};
    fake_ground_set_up(&b->ground, "session", &b->options);
    AUTO_JSON json_t *layer =
        json_pack("{s:s, s:s}", "base_url", "http://127.0.0.1:9/v1", "model", "m");
    assert_ok(config_build(&(struct config_layer){layer, "test"}, 1,
                           &(struct config_defaults){"1.0.0", NULL}, &b->config, &err),
              &err);
    assert_ok(task_parse(sv_from(task_text), "test", NULL, &b->task, &err), &err);
    b->options.config = &b->config.agent;
    *state = b;
    return 0;
}

static struct rollout_factory *factory(struct bench *b) {
    struct err err = {0};
    if (!b->factory) {
        assert_ok(rollout_factory_new(&b->options, &b->factory, &err), &err);
    }
    return b->factory;
}

static int take_down(void **state) {
    struct bench *b = *state;
    rollout_factory_free(b->factory);
    task_deinit(&b->task);
    config_deinit(&b->config);
    fake_ground_take_down(&b->ground);
    free(b);
    return 0;
}

static void run_as(struct bench *b, const char *name, struct rollout_result *out) {
    struct err err = {0};
    struct rollout_names names = {.rollout = name};
    assert_ok(rollout_run(factory(b), &b->task, &names, NULL, out, &err), &err);
    assert_int_equal(fake.alive, 0);
    assert_int_equal(fake.created, fake.killed);
    assert_true(fake.alive_max <= 1);
    AUTO_FREE char *path = file_join(out->dir, "result.json");
    AUTO_JSON json_t *written = NULL;
    assert_ok(json_load(path, 1 << 20, &written, &err), &err);
    assert_true(json_equal(written, out->json));
}

static void run(struct bench *b, struct rollout_result *out) {
    run_as(b, "r", out);
}

static void assert_cause(const struct rollout_result *r, const char *status, const char *cause) {
    assert_string_equal(r->status, status);
    assert_string_equal(r->cause ? r->cause : "-", cause);
}

static void a_clean_rollout_goes_through_its_phases_in_order(void **state) {
    struct bench *b = *state;
    struct rollout_result r = {0};
    run(b, &r);
    assert_cause(&r, "ok", "-");
    assert_true(r.has_reward && r.reward == 1.0);
    assert_true(fake_ordered("create full", "write /home/user/workdir/a.txt"));
    assert_true(fake_ordered("write /home/user/workdir/a.txt", "exec setup-1"));
    assert_true(fake_ordered("exec setup-1", "exec setup-2"));
    assert_true(fake_ordered("exec setup-2", "restart model"));
    assert_true(fake_ordered("restart model", "start agent-program"));
    assert_true(fake_ordered("start agent-program", "kill_all"));
    assert_true(fake_ordered("kill_all", "restart none"));
    assert_true(fake_ordered("restart none", "exec clean make-room"));
    assert_true(fake_ordered("exec clean make-room", "write /home/user/workdir/tests/v.py"));
    assert_true(fake_ordered("write /home/user/workdir/tests/v.py", "exec clean verify-1"));
    assert_true(fake_ordered("exec clean verify-2", "kill "));
    assert_int_equal(rollout_result_exit_status(&r), 0);
    rollout_result_deinit(&r);
}

static void every_step_that_fails_has_its_cause_and_ends_in_teardown(void **state) {
    struct bench *b = *state;
    static const struct {
        struct fake_fault fault;
        const char *status, *cause;
        bool started, verified;
    } steps[] = {
        {{"create", ERR_SYS}, "failed", "sandbox_create", false, false},
        {{"create", ERR_QUOTA}, "failed", "quota", false, false},
        {{"create", ERR_CANCELLED}, "cancelled", "-", false, false},
        {{"exec:mkdir", ERR_TIMEOUT}, "failed", "sandbox_create", false, false},
        {{"exec:mkdir", 0, 1}, "failed", "sandbox_create", false, false},
        {{"write", ERR_FULL}, "failed", "agent_install", false, false},
        {{"write", ERR_LOST}, "failed", "sandbox_lost", false, false},
        {{"exec:setup-2", 0, 7}, "failed", "setup_failed", false, false},
        {{"exec:setup-2", 0, 124, true}, "failed", "setup_failed", false, false},
        {{"exec:setup-2", ERR_LOST}, "failed", "sandbox_lost", false, false},
        {{"restart:model", ERR_SYS}, "failed", "sandbox_create", false, false},
        {{"start", ERR_NOT_FOUND}, "failed", "agent_install", false, false},
        {{"start", ERR_SYS}, "failed", "internal", false, false},
        {{"wait", ERR_LOST}, "failed", "sandbox_lost", true, false},
        {{"restart:none", ERR_LOST}, "failed", "sandbox_lost", true, false},
        {{"exec:make-room", 0, 1}, "failed", "verify_crash", true, false},
        {{"exec:verify-2", ERR_SYS}, "failed", "verify_crash", true, true},
        {{"exec:verify-2", ERR_LOST}, "failed", "sandbox_lost", true, true},
        {{"exec:verify-2", 0, 124, true}, "failed", "verify_timeout", true, true},
        {{"read:reward.txt", ERR_INPUT}, "failed", "reward_unreadable", true, true},
        {{"read:reward.txt", ERR_LOST}, "failed", "sandbox_lost", true, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        fake_reset();
        fake.faults[0] = steps[i].fault;
        struct rollout_result r = {0};
        struct err err = {0};
        char name[16];
        snprintf(name, sizeof name, "r%zu", i);
        assert_ok(rollout_run(factory(b), &b->task, &(struct rollout_names){.rollout = name}, NULL,
                              &r, &err),
                  &err);
        if (strcmp(r.status, steps[i].status) != 0 ||
            strcmp(r.cause ? r.cause : "-", steps[i].cause) != 0) {
            fail_msg("%s code %d: want %s/%s, got %s/%s", steps[i].fault.call, steps[i].fault.code,
                     steps[i].status, steps[i].cause, r.status, r.cause ? r.cause : "-");
        }
        assert_false(r.has_reward);
        assert_non_null(r.error);
        assert_int_equal(fake.alive, 0);
        assert_int_equal(fake_count("wait") > 0, steps[i].started);
        assert_int_equal(fake_count("exec clean verify-1") > 0, steps[i].verified);
        rollout_result_deinit(&r);
    }
}

static void a_failing_teardown_does_not_hide_the_first_error(void **state) {
    struct bench *b = *state;
    fake.faults[0] = (struct fake_fault){.call = "exec:setup-1", .exit_code = 3};
    fake.faults[1] = (struct fake_fault){.call = "kill", .code = ERR_SYS};
    struct rollout_result r = {0};
    run(b, &r);
    assert_cause(&r, "failed", "setup_failed");
    assert_non_null(strstr(r.error, "setup command failed (exit 3): setup-1"));
    json_t *finding = json_array_get(json_object_get(r.json, "findings"), 0);
    assert_string_equal(json_string_value(json_object_get(finding, "code")), "teardown_failed");
    rollout_result_deinit(&r);
}

static void a_sandbox_that_comes_up_at_the_third_try_is_used(void **state) {
    struct bench *b = *state;
    fake.faults[0] = (struct fake_fault){.call = "create", .code = ERR_SYS, .times = 2};
    struct rollout_result r = {0};
    run(b, &r);
    assert_cause(&r, "ok", "-");
    assert_int_equal(fake_count("create"), 3);
    rollout_result_deinit(&r);
}

static void one_that_never_comes_up_is_tried_three_times_and_the_first_error_told(void **state) {
    struct bench *b = *state;
    fake.faults[0] = (struct fake_fault){.call = "create", .code = ERR_TIMEOUT, .times = 1};
    fake.faults[1] = (struct fake_fault){.call = "exec:mkdir", .code = ERR_SYS};
    fake.faults[2] = (struct fake_fault){.call = "kill", .code = ERR_SYS};
    struct rollout_result r = {0};
    run(b, &r);
    assert_cause(&r, "failed", "sandbox_create");
    assert_string_equal(r.error, "fake create failed");
    assert_int_equal(fake_count("create"), 3);
    assert_int_equal(fake_count("kill "), 2); /* Those that came to be, each before the next. */
    assert_int_equal(rollout_result_exit_status(&r), 1);
    rollout_result_deinit(&r);
}

static void want_of_something_on_the_machine_is_not_tried_again(void **state) {
    struct bench *b = *state;
    b->options.strict = true;
    fake.faults[0] = (struct fake_fault){.call = "create", .code = ERR_ENVIRONMENT};
    struct rollout_result r = {0};
    run(b, &r);
    assert_int_equal(fake_count("create"), 1);
    assert_int_equal(rollout_result_exit_status(&r), 3);
    rollout_result_deinit(&r);
}

static void setup_without_an_outside_network_is_said_and_goes_on(void **state) {
    struct bench *b = *state;
    fake.faults[0] = (struct fake_fault){.call = "create:full", .code = ERR_ENVIRONMENT};
    struct rollout_result r = {0};
    run(b, &r);
    assert_cause(&r, "ok", "-");
    assert_true(fake_ordered("create full", "create model"));
    assert_int_equal(fake_count("restart model"), 0); /* It is the agent's network already. */
    json_t *finding = json_array_get(json_object_get(r.json, "findings"), 0);
    assert_string_equal(json_string_value(json_object_get(finding, "code")), "setup_offline");
    rollout_result_deinit(&r);
}

static bool finds(const struct rollout_result *r, const char *code) {
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(r->json, "findings"), i, one) {
        if (strcmp(json_string_value(json_object_get(one, "code")), code) == 0) {
            return true;
        }
    }
    return false;
}

static void what_cannot_be_collected_is_said(void **state) {
    struct bench *b = *state;
    struct rollout_result r = {0};
    fake.faults[0] = (struct fake_fault){.call = "exec:find", .code = ERR_SYS};
    fake.faults[1] = (struct fake_fault){.call = "read:agent.log", .code = ERR_NOT_FOUND};
    run(b, &r);
    assert_true(finds(&r, "files_unreadable"));
    assert_true(finds(&r, "agent_log_unreadable"));
    assert_true(finds(&r, "no_turns"));
    assert_false(finds(&r, "file_not_kept"));
    rollout_result_deinit(&r);
    memset(fake.faults, 0, sizeof fake.faults);
    /* A name that no file of ours may have. */
    static const char listing[] = "5 a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z\0"
                                  "5 fine";
    fake.listing = (struct sv){listing, sizeof listing};
    run_as(b, "r2", &r);
    assert_true(finds(&r, "file_not_kept"));
    assert_false(finds(&r, "files_unreadable"));
    rollout_result_deinit(&r);
}

/* Calls that have no end, the second with a byte that is not what was written. */
static void plant_calls(struct rollout_factory *f, const char *session) {
    struct err err = {0};
    AUTO_FREE char *path = NULL;
    struct journal_record record = {
        .type = JOURNAL_INTENT, .session = sv_from(session), .head = SV("{\"a\":1}")};
    for (record.call = 1; record.call <= 2; record.call++) {
        assert_ok(journal_append(f->journal, &record, NULL, NULL, &err), &err);
    }
    assert_ok(journal_flush(f->journal, &err), &err);
    DIR *dir = opendir(f->journal_dir);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] != '.') {
            free(path);
            path = mem_printf("%s/%s/000001.log", f->journal_dir, e->d_name);
        }
    }
    closedir(dir);
    AUTO_CLOSE int fd = open(path ? path : "", O_WRONLY | O_CLOEXEC);
    struct stat st = {0};
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(pwrite(fd, "#", 1, st.st_size - 1), 1);
}

static void damage_and_calls_without_an_end_are_said(void **state) {
    struct bench *b = *state;
    struct rollout_result r = {0};
    run(b, &r);
    assert_false(finds(&r, "open_calls"));
    assert_false(finds(&r, "journal_torn"));
    rollout_result_deinit(&r);
    plant_calls(b->factory, "other.1");
    run_as(b, "other", &r);
    assert_true(finds(&r, "open_calls"));
    assert_true(finds(&r, "journal_torn"));
    assert_true(finds(&r, "nothing_trainable"));
    rollout_result_deinit(&r);
}

static void a_crashed_agent_is_verified_unless_only_clean_ones_are(void **state) {
    struct bench *b = *state;
    fake.agent_exit = 3;
    struct rollout_result r = {0};
    run(b, &r);
    assert_cause(&r, "ok", "agent_crash");
    assert_true(r.has_reward);
    assert_int_equal(json_integer_value(json_object_get(r.json, "agent_exit_code")), 3);
    rollout_result_deinit(&r);
    rollout_factory_free(b->factory);
    b->factory = NULL;
    b->options.verify_on = ROLLOUT_VERIFY_CLEAN;
    b->options.run = "clean";
    fake_reset();
    fake.agent_exit = 3;
    run(b, &r);
    assert_cause(&r, "ok", "agent_crash");
    assert_false(r.has_reward);
    assert_int_equal(fake_count("exec clean verify-1"), 0);
    rollout_result_deinit(&r);
}

static void an_agent_out_of_time_is_stopped_and_verified(void **state) {
    struct bench *b = *state;
    b->options.limits.agent_s = 0.05;
    fake.agent_goes_on = true;
    struct rollout_result r = {0};
    run(b, &r);
    assert_cause(&r, "ok", "agent_timeout");
    assert_true(r.has_reward);
    assert_true(json_is_null(json_object_get(r.json, "agent_exit_code")));
    assert_true(fake_ordered("kill_all", "exec clean verify-1"));
    assert_int_equal(strncmp(r.error, "agent timeout: ", 15), 0);
    rollout_result_deinit(&r);
}

static void an_agent_without_a_call_gets_a_second_attempt_and_the_first_is_kept(void **state) {
    struct bench *b = *state;
    static struct agent calling_agent; /* The factory outlives this function. */
    calling_agent = fake_agent;
    calling_agent.must_call = true;
    b->options.running = &calling_agent;
    struct rollout_result r = {0};
    struct err err = {0};
    assert_ok(
        rollout_run(factory(b), &b->task, &(struct rollout_names){.rollout = "r"}, NULL, &r, &err),
        &err);
    assert_cause(&r, "failed", "agent_no_calls");
    assert_false(r.has_reward);
    assert_int_equal(fake_count("create"), 2);
    assert_int_equal(json_integer_value(json_object_get(r.json, "attempt")), 2);
    AUTO_FREE char *first = file_join(r.dir, "attempts/1/result.json");
    assert_int_equal(file_exists(first), 1);
    rollout_result_deinit(&r);
}

static void the_rewards_file_wins_over_the_share_of_commands(void **state) {
    struct bench *b = *state;
    fake.faults[0] = (struct fake_fault){.call = "exec:verify-2", .exit_code = 1};
    struct rollout_result r = {0};
    run(b, &r);
    assert_true(r.has_reward && r.reward == 0.5);
    rollout_result_deinit(&r);
    rollout_factory_free(b->factory);
    b->factory = NULL;
    b->options.run = "second";
    fake_reset();
    fake.reward = "0.125\n";
    run(b, &r);
    assert_true(r.has_reward && r.reward == 0.125);
    rollout_result_deinit(&r);
}

static struct rollout_session *session(struct bench *b) {
    struct rollout_session *s = NULL;
    struct err err = {0};
    assert_ok(rollout_factory_create(factory(b), &b->task, &(struct rollout_names){.rollout = "r"},
                                     NULL, &s, &err),
              &err);
    return s;
}

static void assert_policy(const struct rollout_session *s, const char *want) {
    AUTO_BUF struct buf settings = {0};
    AUTO_JSON json_t *object = NULL;
    struct err err = {0};
    assert_int_equal(gateway_session_put_settings(s->gateway, &settings), 0);
    assert_ok(json_parse(buf_sv(&settings), "settings", &object, &err), &err);
    const char *have = json_string_value(json_object_get(object, "policy_version"));
    assert_string_equal(have ? have : "-", want);
}

static void a_policy_s_version_may_change_for_one_session_and_for_all(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct rollout_session *s = NULL;
    b->config.agent.policy_version = "step-1";
    struct rollout_session *first = session(b);
    assert_policy(first, "step-1");
    assert_ok(rollout_factory_set_policy_version(b->factory, "step-2", &err), &err);
    assert_policy(first, "step-2");
    assert_ok(rollout_factory_create(b->factory, &b->task, &(struct rollout_names){.rollout = "s"},
                                     NULL, &s, &err),
              &err);
    assert_policy(s, "step-2");
    assert_ok(rollout_session_set_policy_version(s, "step-3", &err), &err);
    assert_policy(s, "step-3");
    assert_policy(first, "step-2");
    assert_ok(rollout_session_close(s, &err), &err);
    assert_err(rollout_session_set_policy_version(s, "step-4", &err), ERR_STATE, &err, "has ended");
    assert_ok(rollout_factory_set_policy_version(b->factory, NULL, &err), &err);
    assert_policy(first, "-");
    rollout_session_free(s);
    rollout_session_free(first);
}

static void calls_out_of_order_are_refused(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct rollout_verdict verdict;
    int code = -1;
    json_t *result = NULL;
    struct rollout_session *s = session(b);
    assert_int_equal(fake_count("start"), 0); /* create does not start the agent. */
    assert_err(rollout_session_wait(s, 0, &code, &err), ERR_STATE, &err, "not started");
    assert_err(rollout_session_verify(s, &verdict, &err), ERR_STATE, &err, "not started");
    assert_err(rollout_session_result(s, &result, &err), ERR_STATE, &err, "closed");
    assert_ok(rollout_session_close(s, &err), &err);
    assert_err(rollout_session_start_agent(s, &err), ERR_STATE, &err, "closed");
    assert_err(rollout_session_verify(s, &verdict, &err), ERR_STATE, &err, "closed");
    assert_ok(rollout_session_result(s, &result, &err), &err);
    json_decref(result);
    rollout_session_free(s);
}

static void repeated_calls_change_nothing(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    struct rollout_verdict verdict;
    int code = -1;
    struct rollout_session *s = session(b);
    for (int i = 0; i < 2; i++) {
        assert_ok(rollout_session_start_agent(s, &err), &err);
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(rollout_session_wait(s, 0, &code, &err), &err);
        assert_int_equal(code, 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(rollout_session_verify(s, &verdict, &err), &err);
        assert_true(verdict.has_reward);
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(rollout_session_close(s, &err), &err);
    }
    assert_int_equal(fake_count("start"), 1);
    assert_int_equal(fake_count("exec clean verify-1"), 1);
    assert_int_equal(fake.killed, 1);
    rollout_session_free(s);
}

static void a_short_wait_leaves_the_agent_running(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    int code = -1;
    fake.agent_goes_on = true;
    struct rollout_session *s = session(b);
    assert_ok(rollout_session_start_agent(s, &err), &err);
    assert_err(rollout_session_wait(s, 0.02, &code, &err), ERR_TIMEOUT, &err, "still running");
    assert_int_equal(fake_count("kill_all"), 0);
    fake.agent_goes_on = false;
    assert_ok(rollout_session_wait(s, 0, &code, &err), &err);
    AUTO_BUF struct buf log = {0};
    assert_ok(rollout_session_fetch_log(s, &log, &err), &err);
    assert_string_equal(buf_cstr(&log), "agent says hello\n");
    rollout_session_free(s);
    assert_int_equal(fake.alive, 0);
}

static void *close_soon(void *session) {
    struct err err = {0};
    clock_sleep_ms(30);
    assert_ok(rollout_session_close(session, &err), &err);
    return NULL;
}

static void closing_from_another_thread_ends_a_wait_and_collects_first(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    int code = -1;
    fake.agent_goes_on = true;
    struct rollout_session *s = session(b);
    assert_ok(rollout_session_start_agent(s, &err), &err);
    pthread_t t;
    pthread_create(&t, NULL, close_soon, s);
    assert_err(rollout_session_wait(s, 0, &code, &err), ERR_CANCELLED, &err, "cancelled");
    pthread_join(t, NULL);
    json_t *result = NULL;
    assert_ok(rollout_session_result(s, &result, &err), &err);
    assert_string_equal(json_string_value(json_object_get(result, "status")), "cancelled");
    assert_string_equal(json_string_value(json_object_get(result, "agent_log_tail")),
                        "agent says hello\n");
    json_decref(result);
    assert_true(fake_ordered("read /home/user/logs/agent/agent.log", "kill "));
    rollout_session_free(s);
    assert_int_equal(fake.alive, 0);
}

static void throw_at_wait(void *arg, const struct rollout_event *e) {
    if (e->phase == ROLLOUT_PHASE_AGENT && !e->tick) {
        cancel_throw(arg);
    }
}

static void a_cancelled_rollout_is_collected_and_one_cancelled_hard_is_not(void **state) {
    struct bench *b = *state;
    struct err err = {0};
    for (int hard = 0; hard < 2; hard++) {
        fake_reset();
        fake.agent_goes_on = true;
        struct cancel *cancel = NULL;
        assert_ok(cancel_new(&cancel, &err), &err);
        struct rollout_control control = {.cancel = cancel,
                                          .hard = hard ? cancel : NULL,
                                          .progress = throw_at_wait,
                                          .progress_arg = cancel};
        struct rollout_result r = {0};
        assert_ok(rollout_run(factory(b), &b->task,
                              &(struct rollout_names){.rollout = hard ? "hard" : "soft"}, &control,
                              &r, &err),
                  &err);
        assert_cause(&r, "cancelled", "-");
        assert_int_equal(rollout_result_exit_status(&r), 130);
        assert_int_equal(fake_count("exec clean find"), hard ? 0 : 1);
        assert_int_equal(fake.alive, 0);
        rollout_result_deinit(&r);
        cancel_free(cancel);
    }
}

static void a_bad_name_is_refused_before_anything_exists(void **state) {
    struct bench *b = *state;
    static const char *const bad[] = {"", "A", "-a", "a_b", "a/b", "..", "a.b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        struct rollout_result r = {0};
        assert_int_equal(rollout_run(factory(b), &b->task,
                                     &(struct rollout_names){.rollout = bad[i]}, NULL, &r, &err),
                         ERR_INPUT);
    }
    assert_int_equal(fake_count("create"), 0);
    AUTO_FREE char *run_dir = file_join(b->ground.dir, "run");
    assert_int_equal(file_exists(run_dir), 0);
}

static void what_the_references_session_offers_besides_is_there(void **state) {
    struct bench *b = *state;
    struct rollout_session *s = session(b);
    AUTO_JSON json_t *messages = rollout_session_initial_messages(s);
    AUTO_JSON json_t *tools = rollout_session_list_tools(s);
    AUTO_JSON json_t *answer = rollout_session_call_tool(s, "bash");
    assert_string_equal(json_string_value(json_object_get(json_array_get(messages, 0), "content")),
                        "do it");
    assert_int_equal(json_array_size(tools), 0);
    assert_non_null(strstr(json_string_value(json_object_get(answer, "error")), "'bash'"));
    rollout_session_free(s);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)

static const struct CMUnitTest tests[] = {
    CASE(a_clean_rollout_goes_through_its_phases_in_order),
    CASE(every_step_that_fails_has_its_cause_and_ends_in_teardown),
    CASE(a_failing_teardown_does_not_hide_the_first_error),
    CASE(a_sandbox_that_comes_up_at_the_third_try_is_used),
    CASE(one_that_never_comes_up_is_tried_three_times_and_the_first_error_told),
    CASE(want_of_something_on_the_machine_is_not_tried_again),
    CASE(setup_without_an_outside_network_is_said_and_goes_on),
    CASE(what_cannot_be_collected_is_said),
    CASE(damage_and_calls_without_an_end_are_said),
    CASE(a_crashed_agent_is_verified_unless_only_clean_ones_are),
    CASE(an_agent_out_of_time_is_stopped_and_verified),
    CASE(an_agent_without_a_call_gets_a_second_attempt_and_the_first_is_kept),
    CASE(the_rewards_file_wins_over_the_share_of_commands),
    CASE(a_policy_s_version_may_change_for_one_session_and_for_all),
    CASE(calls_out_of_order_are_refused),
    CASE(repeated_calls_change_nothing),
    CASE(a_short_wait_leaves_the_agent_running),
    CASE(closing_from_another_thread_ends_a_wait_and_collects_first),
    CASE(a_cancelled_rollout_is_collected_and_one_cancelled_hard_is_not),
    CASE(a_bad_name_is_refused_before_anything_exists),
    CASE(what_the_references_session_offers_besides_is_there),
};

RUN_TESTS(tests)
