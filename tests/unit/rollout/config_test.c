/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/config.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

#define PIN "1.2.3"

static const struct config_defaults defaults = {.agent_version = PIN};

static json_t *json(const char *text) {
    struct err err = {0};
    json_t *value = NULL;
    assert_ok(json_parse(sv_from(text), "test", &value, &err), &err);
    return value;
}

/* Builds from up to two layers of text. */
static int build(const char *file, const char *flags, struct config *out, struct err *err) {
    AUTO_JSON json_t *a = file ? json(file) : NULL;
    AUTO_JSON json_t *b = flags ? json(flags) : NULL;
    struct config_layer layers[] = {{a, "config.json"}, {b, "the command line"}};
    return config_build(layers, 2, &defaults, out, err);
}

static struct config built(const char *file, const char *flags) {
    struct err err = {0};
    struct config c = {0};
    assert_ok(build(file, flags, &c, &err), &err);
    return c;
}

static void refused(const char *file, const char *words) {
    struct err err = {0};
    struct config c = {0};
    assert_err(build(file, NULL, &c, &err), ERR_INPUT, &err, words);
    assert_null(c.merged);
}

static void without_layers_the_defaults_hold(void **state) {
    (void)state;
    struct config c = built(NULL, NULL);
    const struct agent_config *a = &c.agent;
    assert_string_equal(a->provider, "openai_compatible");
    assert_null(a->base_url);
    assert_string_equal(a->api_key, "intercepted");
    assert_string_equal(a->model, "intercepted/model");
    assert_int_equal(a->request_timeout_ms, 600000);
    assert_string_equal(a->opencode_version, PIN);
    assert_int_equal(json_array_size(a->disabled_tools), 2);
    assert_string_equal(json_string_value(json_array_get(a->disabled_tools, 1)), "question");
    assert_null(a->enabled_tools);
    assert_null(a->system_prompt);
    assert_int_equal(json_object_size(a->extra_opencode_json), 0);
    assert_string_equal(a->run_format, "json");
    assert_true(a->agent_timeout_s == 900.0);
    assert_int_equal(json_object_size(a->extra_env), 0);
    assert_null(a->extra_setup_shell);
    assert_string_equal(a->sandbox_home, "/home/user");
    assert_int_equal(a->proxy_max_tokens_cap, 16384);
    assert_int_equal(a->proxy_top_logprobs, 5);
    assert_false(a->proxy_disable_thinking);
    config_deinit(&c);
}

static void every_field_can_be_set(void **state) {
    (void)state;
    struct config c = built(
        "{\"provider\":\"anthropic\",\"base_url\":\"http://h/"
        "v1\",\"api_key\":\"k\",\"model\":\"m\","
        "\"request_timeout_ms\":1000,\"opencode_version\":\"latest\",\"disabled_tools\":[],"
        "\"enabled_tools\":[\"bash\"],\"system_prompt\":\"be brief\",\"extra_opencode_json\":"
        "{\"a\":1},\"run_format\":\"default\",\"agent_timeout_s\":2.5,\"extra_env\":{\"A\":\"1\"},"
        "\"extra_setup_shell\":\"true\",\"sandbox_home\":\"/root\",\"proxy_max_tokens_cap\":7,"
        "\"proxy_top_logprobs\":0,\"proxy_disable_thinking\":true,\"capture\":\"public\","
        "\"public_url\":\"https://gateway.example\",\"listen\":\"0.0.0.0:7000\"}",
        NULL);
    const struct agent_config *a = &c.agent;
    assert_string_equal(a->provider, "anthropic");
    assert_string_equal(a->base_url, "http://h/v1");
    assert_string_equal(a->api_key, "k");
    assert_string_equal(a->model, "m");
    assert_int_equal(a->request_timeout_ms, 1000);
    assert_string_equal(a->opencode_version, "latest");
    assert_int_equal(json_array_size(a->disabled_tools), 0);
    assert_int_equal(json_array_size(a->enabled_tools), 1);
    assert_string_equal(a->system_prompt, "be brief");
    assert_int_equal(json_object_size(a->extra_opencode_json), 1);
    assert_string_equal(a->run_format, "default");
    assert_true(a->agent_timeout_s == 2.5);
    assert_string_equal(json_string_value(json_object_get(a->extra_env, "A")), "1");
    assert_string_equal(a->extra_setup_shell, "true");
    assert_string_equal(a->sandbox_home, "/root");
    assert_int_equal(a->proxy_max_tokens_cap, 7);
    assert_int_equal(a->proxy_top_logprobs, 0);
    assert_true(a->proxy_disable_thinking);
    assert_string_equal(a->capture, "public");
    assert_string_equal(a->public_url, "https://gateway.example");
    assert_string_equal(a->listen, "0.0.0.0:7000");
    config_deinit(&c);
}

static void a_later_layer_wins_and_objects_merge_deep(void **state) {
    (void)state;
    AUTO_JSON json_t *file = json("{\"model\":\"a\",\"extra_env\":{\"A\":\"1\",\"B\":\"1\"},"
                                  "\"extra_opencode_json\":{\"x\":{\"y\":1,\"z\":[1]}}}");
    AUTO_JSON json_t *flags = json("{\"model\":\"b\",\"extra_env\":{\"B\":\"2\"},"
                                   "\"extra_opencode_json\":{\"x\":{\"z\":[2],\"n\":null}}}");
    AUTO_JSON json_t *file_before = json_deep_copy(file);
    struct config_layer layers[] = {{file, "config.json"}, {NULL, "none"}, {flags, "flags"}};
    struct config c = {0};
    struct err err = {0};
    assert_ok(config_build(layers, 3, &defaults, &c, &err), &err);
    assert_true(json_equal(file, file_before));
    assert_string_equal(c.agent.model, "b");
    AUTO_JSON json_t *env = json("{\"A\":\"1\",\"B\":\"2\"}");
    assert_true(json_equal(c.agent.extra_env, env));
    AUTO_JSON json_t *extra = json("{\"x\":{\"y\":1,\"z\":[2],\"n\":null}}");
    assert_true(json_equal(c.agent.extra_opencode_json, extra));
    config_deinit(&c);
}

static void null_lifts_the_cap_and_puts_other_fields_back(void **state) {
    (void)state;
    struct config c = built("{\"proxy_max_tokens_cap\":5,\"model\":\"m\",\"enabled_tools\":[\"a\"],"
                            "\"disabled_tools\":[\"b\"],\"agent_timeout_s\":1}",
                            "{\"proxy_max_tokens_cap\":null,\"model\":null,\"enabled_tools\":null,"
                            "\"disabled_tools\":null,\"agent_timeout_s\":null}");
    assert_int_equal(c.agent.proxy_max_tokens_cap, 0);
    assert_string_equal(c.agent.model, "intercepted/model");
    assert_null(c.agent.enabled_tools);
    assert_int_equal(json_array_size(c.agent.disabled_tools), 2);
    assert_true(c.agent.agent_timeout_s == 900.0);
    config_deinit(&c);
}

static void mistakes_name_the_layer_the_field_and_the_remedy(void **state) {
    (void)state;
    refused("{\"modle\":\"m\"}", "config.json: unknown field 'modle' (did you mean 'model'?)");
    refused("{\"model\":1}", "config.json: model: want a string, got a number");
    refused("{\"provider\":\"openai-compatible\"}", "did you mean 'openai_compatible'?");
    refused("{\"provider\":\"bedrock\"}",
            "unknown value 'bedrock' (use openai_compatible, openai or anthropic)");
    refused("{\"run_format\":\"text\"}", "run_format: unknown value 'text'");
    refused("{\"capture\":\"sandboxed\"}", "did you mean 'sandbox'?");
    refused("{\"agent_timeout_s\":0}", "agent_timeout_s: want a number from");
    refused("{\"agent_timeout_s\":-1}", "agent_timeout_s");
    refused("{\"request_timeout_ms\":1.5}", "want a whole number");
    refused("{\"request_timeout_ms\":0}", "request_timeout_ms");
    refused("{\"proxy_max_tokens_cap\":0}", "proxy_max_tokens_cap");
    refused("{\"proxy_top_logprobs\":21}", "proxy_top_logprobs: want a number from 0 to 20");
    refused("{\"proxy_top_logprobs\":99999999999}", "proxy_top_logprobs");
    refused("{\"disabled_tools\":[\"a\",1]}", "disabled_tools[1]: want a name, got a number");
    refused("{\"enabled_tools\":\"bash\"}", "enabled_tools: want an array, got a string");
    refused("{\"enabled_tools\":[\"\"]}", "enabled_tools[0]");
    refused("{\"extra_env\":{\"A\":1}}", "extra_env: A: want a string, got a number");
    refused("{\"extra_env\":{\"A=B\":\"1\"}}", "no name of a variable");
    refused("{\"extra_opencode_json\":[]}", "extra_opencode_json: want an object");
    refused("{\"sandbox_home\":\"home\"}", "sandbox_home: want an absolute, plain path");
    refused("{\"sandbox_home\":\"/\"}", "sandbox_home");
    refused("{\"sandbox_home\":\"/a/../b\"}", "sandbox_home");
    refused("{\"sandbox_home\":\"/a/..\"}", "sandbox_home");
    refused("[]", "config.json: want an object with configuration fields, got an array");
}

static void a_file_is_read_and_checked(void **state) {
    (void)state;
    struct err err = {0};
    json_t *value = NULL;
    char path[] = "/tmp/snaffle-config-test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(file_write(path, SV("{\"model\":\"m\"}"), 0600, &err), &err);
    assert_ok(config_load(path, &value, &err), &err);
    assert_string_equal(json_string_value(json_object_get(value, "model")), "m");
    json_decref(value);
    assert_ok(file_write(path, SV("{\"model\":}"), 0600, &err), &err);
    assert_err(config_load(path, &value, &err), ERR_INPUT, &err, "line 1");
    assert_ok(file_write(path, SV("{\"m\":1}"), 0600, &err), &err);
    assert_err(config_load(path, &value, &err), ERR_INPUT, &err, path);
    unlink(path);
    assert_err(config_load(path, &value, &err), ERR_NOT_FOUND, &err, path);
}

static void what_is_printed_holds_no_secret(void **state) {
    (void)state;
    struct config c =
        built("{\"api_key\":\"sk-secret\",\"extra_env\":{\"A\":\"sk-secret\"}}", NULL);
    AUTO_JSON json_t *shown = config_to_json(&c);
    AUTO_BUF struct buf text = {0};
    assert_int_equal(json_compact(shown, &text), 0);
    assert_null(strstr(buf_cstr(&text), "sk-secret"));
    assert_non_null(strstr(buf_cstr(&text), "\"extra_env_names\":[\"A\"]"));
    assert_non_null(strstr(buf_cstr(&text), "\"proxy_max_tokens_cap\":16384"));
    config_deinit(&c);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(without_layers_the_defaults_hold),
    cmocka_unit_test(every_field_can_be_set),
    cmocka_unit_test(a_later_layer_wins_and_objects_merge_deep),
    cmocka_unit_test(null_lifts_the_cap_and_puts_other_fields_back),
    cmocka_unit_test(mistakes_name_the_layer_the_field_and_the_remedy),
    cmocka_unit_test(a_file_is_read_and_checked),
    cmocka_unit_test(what_is_printed_holds_no_secret),
};

RUN_TESTS(tests)
