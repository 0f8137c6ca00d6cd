/* SPDX-License-Identifier: BSD-3-Clause */
#include <snaffle/snaffle.h>

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * A program as a user of the library writes it: it includes the public header and links libsnaffle,
 * nothing else of the project.
 */

extern char **environ;

static char runs[] = "/tmp/snaffle-api-XXXXXX";

#define assert_good(call, error)                                                                   \
    do {                                                                                           \
        if ((call) < 0) {                                                                          \
            fail_msg("%s: %s", #call, snaffle_error_message(error));                               \
        }                                                                                          \
    } while (0)

static snaffle_options options(void) {
    snaffle_options o = {0};
    o.size = sizeof o;
    o.base_url = "http://127.0.0.1:9/v1";
    o.model = "scripted";
    o.mode = "transparent_proxy";
    o.runs_dir = runs;
    o.logprobs_processed = 1;
    return o;
}

/* NULL, and why, where this machine lacks the agent or sandboxes. */
static snaffle_factory *factory_or_skip(const snaffle_options *o) {
    snaffle_factory *f = NULL;
    snaffle_error *error = NULL;
    if (snaffle_factory_new(o, &f, &error) < 0) {
        if (snaffle_error_code(error) != SNAFFLE_ERR_ENVIRONMENT) {
            fail_msg("%s", snaffle_error_message(error));
        }
        print_message("# skipped: %s\n", snaffle_error_message(error));
        snaffle_error_free(error);
        skip();
    }
    return f;
}

static void version_and_catalog_are_told(void **state) {
    (void)state;
    assert_string_equal(snaffle_version(), EXPECTED_VERSION);
    char *json = NULL;
    snaffle_error *error = NULL;
    assert_good(snaffle_catalog_summary(&json, &error), error);
    assert_non_null(strstr(json, "\"kind\":\"vllm\""));
    snaffle_free(json);
}

static void options_of_another_size_are_taken_or_refused_with_a_reason(void **state) {
    (void)state;
    snaffle_factory *f = NULL;
    snaffle_error *error = NULL;
    snaffle_options o = options();
    o.size = 0;
    assert_int_equal(snaffle_factory_new(&o, &f, &error), SNAFFLE_ERR_INPUT);
    assert_non_null(strstr(snaffle_error_message(error), "'size' is 0"));
    assert_string_equal(snaffle_error_name(error), "INPUT");
    snaffle_error_free(error);
    assert_int_equal(snaffle_factory_new(NULL, &f, NULL), SNAFFLE_ERR_INPUT);

    struct {
        snaffle_options known;
        size_t later_field;
    } larger = {options(), 1};
    larger.known.size = sizeof larger;
    assert_int_equal(snaffle_factory_new(&larger.known, &f, &error), SNAFFLE_ERR_UNSUPPORTED);
    snaffle_error_free(error);
    larger.later_field = 0;
    larger.known.mode = "nonsense"; /* Past the size, this is what is wrong. */
    assert_int_equal(snaffle_factory_new(&larger.known, &f, &error), SNAFFLE_ERR_INPUT);
    assert_non_null(strstr(snaffle_error_message(error), "'nonsense'"));
    snaffle_error_free(error);
}

static void bad_input_is_one_line_that_names_it(void **state) {
    (void)state;
    snaffle_factory *f = NULL;
    snaffle_error *error = NULL;
    snaffle_options o = options();
    o.endpoint = "nowhere";
    o.base_url = NULL;
    assert_int_equal(snaffle_factory_new(&o, &f, &error), SNAFFLE_ERR_INPUT);
    assert_non_null(strstr(snaffle_error_message(error), "unknown endpoint kind: 'nowhere'"));
    assert_null(strchr(snaffle_error_message(error), '\n'));
    snaffle_error_free(error);
    o = options();
    o.config_json = "{\"agent_timeout\": 5}";
    assert_int_equal(snaffle_factory_new(&o, &f, &error), SNAFFLE_ERR_INPUT);
    assert_non_null(strstr(snaffle_error_message(error), "agent_timeout"));
    snaffle_error_free(error);
    assert_null(f);
}

static pid_t start_model(char *url, size_t size) {
    char port_file[128], port[16] = "";
    snprintf(port_file, sizeof port_file, "%s/port", runs);
    (void)unlink(port_file); /* Of the model before. */
    const char *argv[] = {SCRIPTED_MODEL, "--script",          MODEL_SCRIPT, "--port-file",
                          port_file,      "--die-with-parent", NULL};
    pid_t pid = 0;
    posix_spawn_file_actions_t quiet; /* TAP is this program's own. */
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    assert_int_equal(posix_spawn(&pid, SCRIPTED_MODEL, &quiet, NULL, (char *const *)argv, environ),
                     0);
    posix_spawn_file_actions_destroy(&quiet);
    for (int i = 0; i < 2000 && !*port; i++) {
        FILE *f = fopen(port_file, "r");
        if (f && !fgets(port, sizeof port, f)) {
            *port = '\0';
        }
        if (f) {
            fclose(f);
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    snprintf(url, size, "http://127.0.0.1:%d/v1", (int)strtol(port, NULL, 10));
    return pid;
}

static void count_events(void *arg, const snaffle_event *event) {
    assert_true(event->size == sizeof *event);
    assert_non_null(event->phase);
    assert_non_null(event->text);
    ++*(int *)arg;
}

static void a_rollout_in_one_call_gives_its_result(void **state) {
    (void)state;
    char url[64];
    snaffle_options o = options();
    snaffle_factory_free(factory_or_skip(&o));
    pid_t model = start_model(url, sizeof url);
    o.base_url = url;
    snaffle_factory *f = factory_or_skip(&o);
    snaffle_error *error = NULL;
    assert_good(snaffle_factory_check_endpoint(f, &error), error);
    int events = 0;
    snaffle_session_options s = {0};
    s.size = sizeof s;
    s.task_path = TASK_PATH;
    s.progress = count_events;
    s.progress_arg = &events;
    char *result = NULL;
    assert_good(snaffle_run(f, &s, &result, &error), error);
    if (!strstr(result, "\"reward\":1.0") || !strstr(result, "\"capture_level\":\"tokens\"")) {
        fail_msg("%s", result);
    }
    assert_true(events >= 7);
    snaffle_free(result);
    snaffle_factory_free(f);
    kill(model, SIGTERM);
    waitpid(model, NULL, 0);
}

static void check_fetches(snaffle_session *session) {
    snaffle_error *error = NULL;
    char *text = NULL;
    size_t length = 0;
    assert_good(snaffle_session_fetch_trace(session, &text, &length, &error), error);
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "\"completion_token_ids\""));
    assert_non_null(strstr(text, "\"policy_version\": \"weights-2\""));
    assert_null(strstr(text, "\"policy_version\": \"weights-1\""));
    snaffle_free(text);
    assert_good(snaffle_session_fetch_log(session, &text, &length, &error), error);
    assert_true(length > 0);
    snaffle_free(text);
}

static void a_rollout_step_by_step_gives_trace_log_and_reward(void **state) {
    (void)state;
    char url[64];
    snaffle_options o = options();
    snaffle_factory_free(factory_or_skip(&o));
    pid_t model = start_model(url, sizeof url);
    o.base_url = url;
    snaffle_factory *f = factory_or_skip(&o);
    snaffle_error *error = NULL;
    snaffle_session *session = NULL;
    snaffle_session_options s = {0};
    s.size = sizeof s;
    s.task_path = TASK_PATH;
    s.rollout = "step-by-step";
    assert_good(snaffle_factory_create(f, &s, &session, &error), error);
    assert_string_equal(snaffle_session_rollout(session), "step-by-step");
    assert_true(strlen(snaffle_session_sandbox_id(session)) > 0);
    int code = -1;
    assert_int_equal(snaffle_session_wait(session, 0, &code, &error), SNAFFLE_ERR_STATE);
    snaffle_error_free(error);
    error = NULL;
    assert_good(snaffle_factory_set_policy_version(f, "weights-1", &error), error);
    assert_good(snaffle_session_set_policy_version(session, "weights-2", &error), error);
    assert_good(snaffle_session_start_agent(session, &error), error);
    assert_good(snaffle_session_wait(session, 0, &code, &error), error);
    assert_int_equal(code, 0);
    assert_int_equal(snaffle_session_set_policy_version(session, NULL, &error), SNAFFLE_ERR_STATE);
    snaffle_error_free(error);
    error = NULL;
    check_fetches(session);
    double reward = -1;
    assert_int_equal(snaffle_session_verify(session, &reward, &error), 1);
    assert_true(reward == 1.0);
    assert_good(snaffle_session_close(session, &error), error);
    assert_good(snaffle_session_close(session, &error), error);
    char *text = NULL;
    assert_good(snaffle_session_result(session, &text, &error), error);
    assert_non_null(strstr(text, "\"rollout\":\"step-by-step\""));
    snaffle_free(text);
    snaffle_session_free(session);
    snaffle_factory_free(f);
    kill(model, SIGTERM);
    waitpid(model, NULL, 0);
}

static int make_runs(void **state) {
    (void)state;
    return mkdtemp(runs) ? 0 : -1;
}

static int remove_runs(void **state) {
    (void)state;
    const char *argv[] = {"rm", "-rf", "--", runs, NULL};
    pid_t pid = 0;
    int status = 0;
    return posix_spawnp(&pid, "rm", NULL, NULL, (char *const *)argv, environ) == 0 &&
                   waitpid(pid, &status, 0) == pid && status == 0
               ? 0
               : -1;
}

static const struct CMUnitTest calls[] = {
    cmocka_unit_test(version_and_catalog_are_told),
    cmocka_unit_test(options_of_another_size_are_taken_or_refused_with_a_reason),
    cmocka_unit_test(bad_input_is_one_line_that_names_it),
};
static const struct CMUnitTest rollouts[] = {
    cmocka_unit_test(a_rollout_in_one_call_gives_its_result),
    cmocka_unit_test(a_rollout_step_by_step_gives_trace_log_and_reward),
};

/* api_test calls | rollouts */
int main(int argc, char **argv) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return argc > 1 && strcmp(argv[1], "rollouts") == 0
               ? cmocka_run_group_tests(rollouts, make_runs, remove_runs)
               : cmocka_run_group_tests(calls, make_runs, remove_runs);
}
