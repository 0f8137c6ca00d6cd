/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/settings.h"

static const struct command run = {
    .name = "run",
    .operands = "TASK",
    .operands_min = 1,
    .operands_max = 1,
    .options = run_settings_options,
};

/* A folder of its own with task.json and config.json, and an environment without endpoints. */
static char folder[] = "/tmp/snaffle-settings-XXXXXX";

static void write_file(const char *name, const char *text) {
    struct err err = {0};
    AUTO_FREE char *path = file_join(folder, name);
    assert_ok(file_write(path, sv_from(text), 0644, &err), &err);
}

static int set_up(void **state) {
    static const char *const variables[] = {"VLLM_URL",        "VLLM_API_KEY",   "VLLM_MODEL",
                                            "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        (void)unsetenv(variables[i]);
    }
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int tear_down(void **state) {
    struct err err = {0};
    (void)state;
    return chdir("/") == 0 ? file_remove_tree(folder, &err) : -1;
}

static int read_settings(struct run_settings *s, struct err *err, const char *const *words) {
    struct args a = {0};
    char *argv[24] = {0};
    size_t n = 0;
    for (; words[n]; n++) {
        argv[n] = (char *)words[n];
    }
    int r = args_parse(&run, n, argv, &a, err);
    r = r < 0 ? r : run_settings_read(&a, s, err);
    args_deinit(&a);
    return r;
}
#define READ(s, err, ...) read_settings(s, err, (const char *const[]){__VA_ARGS__, NULL})

static void flags_weigh_more_than_environment_more_than_file_more_than_default(void **state) {
    struct run_settings s = {0};
    struct err err = {0};
    (void)state;
    write_file("task.json", "{\"instruction\": \"x\"}");
    write_file("config.json", "{\"model\": \"of-file\", \"base_url\": \"http://file/v1\","
                              "\"proxy_top_logprobs\": 3, \"agent_timeout_s\": 60}");
    (void)setenv("VLLM_URL", "http://environment", 1);
    assert_ok(READ(&s, &err, "task.json", "--endpoint", "vllm", "--config", "config.json",
                   "--agent-timeout-s", "30"),
              &err);
    assert_string_equal(s.config.agent.base_url, "http://environment/v1");
    assert_string_equal(s.config.agent.model, "of-file");
    assert_int_equal(s.config.agent.proxy_top_logprobs, 3);
    assert_true(s.config.agent.agent_timeout_s == 30);
    assert_true(s.config.agent.request_timeout_ms == 600000);
    assert_true(s.config.agent.proxy_disable_thinking); /* vllm's default */
    run_settings_deinit(&s);

    (void)setenv("VLLM_MODEL", "of-environment", 1);
    assert_ok(READ(&s, &err, "task.json", "--endpoint", "vllm", "--config", "config.json",
                   "--base-url", "http://flag/v1", "--proxy-disable-thinking", "false"),
              &err);
    assert_string_equal(s.config.agent.base_url, "http://flag/v1");
    assert_string_equal(s.config.agent.model, "of-environment");
    assert_false(s.config.agent.proxy_disable_thinking);
    run_settings_deinit(&s);
    (void)unsetenv("VLLM_URL");
    (void)unsetenv("VLLM_MODEL");
}

static void an_address_alone_is_enough_with_a_model(void **state) {
    struct run_settings s = {0};
    struct err err = {0};
    (void)state;
    write_file("task.json", "{\"instruction\": \"x\"}");
    (void)setenv("MY_KEY", "secret", 1);
    assert_ok(READ(&s, &err, "task.json", "--base-url", "http://h/v1", "--model", "m",
                   "--api-key-env", "MY_KEY"),
              &err);
    assert_string_equal(s.config.agent.api_key, "secret");
    assert_string_equal(s.options.key_name, "MY_KEY");
    assert_ptr_equal(s.options.config, &s.config.agent);
    run_settings_deinit(&s);
}

static void flags_weigh_more_than_the_tasks_own_words(void **state) {
    struct run_settings s = {0};
    struct err err = {0};
    (void)state;
    write_file("task.json", "{\"instruction\": \"x\", \"network\": \"none\","
                            "\"limits\": {\"agent_s\": 5, \"memory_mb\": 100, \"setup_s\": 7}}");
    assert_ok(READ(&s, &err, "task.json", "--base-url", "http://h/v1", "--model", "m", "--network",
                   "full", "--agent-timeout-s", "9", "--memory-mb", "200"),
              &err);
    assert_int_equal(s.task.network[TASK_AGENT].word, SANDBOX_NETWORK_FULL);
    assert_true(s.task.limits.agent_s == 9);
    assert_int_equal(s.task.limits.memory_mb, 200);
    assert_true(s.task.limits.setup_s == 7);
    run_settings_deinit(&s);
}

static void lists_pairs_and_json_become_the_configurations_values(void **state) {
    struct run_settings s = {0};
    struct err err = {0};
    (void)state;
    write_file("task.json", "{\"instruction\": \"x\"}");
    assert_ok(READ(&s, &err, "task.json", "--base-url", "http://h/v1", "--model", "m",
                   "--disabled-tools", "a, b", "--extra-env", "A=1", "--extra-env", "B=x=y",
                   "--extra-opencode-json", "{\"a\": {\"b\": 1}}", "--proxy-max-tokens-cap", "0"),
              &err);
    const struct agent_config *c = &s.config.agent;
    assert_int_equal(json_array_size(c->disabled_tools), 2);
    assert_string_equal(json_string_value(json_array_get(c->disabled_tools, 1)), "b");
    assert_string_equal(json_string_value(json_object_get(c->extra_env, "B")), "x=y");
    assert_non_null(json_object_get(json_object_get(c->extra_opencode_json, "a"), "b"));
    assert_int_equal(c->proxy_max_tokens_cap, 0);
    run_settings_deinit(&s);
}

static void what_is_wrong_is_named(void **state) {
    static const struct {
        const char *words[8];
        const char *told;
        int code;
    } rows[] = {
        {{"task.json"}, "which model?", ERR_USAGE},
        {{"task.json", "--base-url", "http://h/v1"}, "no model", ERR_INPUT},
        {{"none.json", "--endpoint", "vllm"}, "none.json", ERR_INPUT},
        {{"task.json", "--endpoint", "vllm"}, "vllm: no base_url", ERR_INPUT},
        {{"task.json", "--endpoint", "openai"}, "openai: no api_key", ERR_INPUT},
        {{"task.json", "--run", "No Good"}, "'No Good'", ERR_INPUT},
        {{"task.json", "--extra-env", "=x"}, "want NAME=VALUE, got '=x'", ERR_USAGE},
        {{"task.json", "--extra-opencode-json", "{"}, "--extra-opencode-json", ERR_INPUT},
        {{"task.json", "--extra-opencode-json", "[]"}, "extra_opencode_json", ERR_INPUT},
        {{"task.json", "--provider", "x"}, "provider", ERR_INPUT},
        {{"task.json", "--config", "none.json"}, "none.json", ERR_NOT_FOUND},
    };
    (void)state;
    write_file("task.json", "{\"instruction\": \"x\"}");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct run_settings s = {0};
        struct err err = {0};
        assert_err(read_settings(&s, &err, rows[i].words), rows[i].code, &err, rows[i].told);
        assert_null(s.task.instruction);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(flags_weigh_more_than_environment_more_than_file_more_than_default),
    cmocka_unit_test(an_address_alone_is_enough_with_a_model),
    cmocka_unit_test(flags_weigh_more_than_the_tasks_own_words),
    cmocka_unit_test(lists_pairs_and_json_become_the_configurations_values),
    cmocka_unit_test(what_is_wrong_is_named),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
