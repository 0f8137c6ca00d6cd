/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/catalog.h"

#include "base/json.h"
#include "tests/testing.h"

static const char *const variables[] = {
    "VLLM_URL",     "VLLM_API_KEY",       "VLLM_MODEL",        "OPENAI_BASE_URL", "OPENAI_API_KEY",
    "OPENAI_MODEL", "HF_ROUTER_BASE_URL", "HF_ROUTER_API_KEY", "HF_ROUTER_MODEL", "MY_KEY"};

static int clear_environment(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i]);
    }
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, clear_environment)

static struct endpoint resolved(struct endpoint_args args) {
    struct err err = {0};
    struct endpoint e = {0};
    assert_ok(endpoint_resolve(&args, &e, &err), &err);
    return e;
}

static void refused(struct endpoint_args args, const char *words) {
    struct err err = {0};
    struct endpoint e = {0};
    assert_err(endpoint_resolve(&args, &e, &err), ERR_INPUT, &err, words);
    assert_null(e.api_key);
    assert_null(strstr(err.msg, "sk-secret"));
}

static void arguments_win_over_the_environment(void **state) {
    (void)state;
    setenv("OPENAI_BASE_URL", "https://env.test/v1", 1);
    setenv("OPENAI_API_KEY", "sk-env", 1);
    setenv("OPENAI_MODEL", "env-model", 1);
    struct endpoint e = resolved((struct endpoint_args){.kind = "openai",
                                                        .base_url = "https://arg.test/v1",
                                                        .api_key = "sk-arg",
                                                        .model = "arg-model"});
    assert_string_equal(e.base_url, "https://arg.test/v1");
    assert_string_equal(e.api_key, "sk-arg");
    assert_null(e.key_name);
    assert_string_equal(e.model, "arg-model");
    assert_false(e.disable_thinking);
    endpoint_deinit(&e);
    assert_null(e.api_key);
}

static void the_environment_wins_over_the_defaults(void **state) {
    (void)state;
    setenv("OPENAI_API_KEY", "sk-env", 1);
    setenv("OPENAI_MODEL", "env-model", 1);
    struct endpoint e = resolved((struct endpoint_args){.kind = "openai"});
    assert_string_equal(e.base_url, "https://api.openai.com/v1");
    assert_string_equal(e.api_key, "sk-env");
    assert_string_equal(e.key_name, "OPENAI_API_KEY");
    assert_string_equal(e.model, "env-model");
    endpoint_deinit(&e);
}

static void an_address_of_a_kind_ends_in_one_v1(void **state) {
    (void)state;
    static const char *const urls[] = {"http://h:8000", "http://h:8000/", "http://h:8000///",
                                       "http://h:8000/v1", "http://h:8000/v1/"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        setenv("VLLM_URL", urls[i], 1);
        struct endpoint e = resolved((struct endpoint_args){.kind = "vllm"});
        assert_string_equal(e.base_url, "http://h:8000/v1");
        assert_string_equal(e.api_key, "intercepted");
        assert_null(e.key_name);
        assert_string_equal(e.model, "Qwen/Qwen3.5-4B");
        assert_true(e.disable_thinking);
        endpoint_deinit(&e);
        e = resolved((struct endpoint_args){.kind = "vllm", .base_url = urls[i]});
        assert_string_equal(e.base_url, "http://h:8000/v1");
        endpoint_deinit(&e);
    }
}

static void an_address_given_outright_stays_as_it_is(void **state) {
    (void)state;
    struct endpoint e =
        resolved((struct endpoint_args){.base_url = "http://h:1/api/", .model = "m"});
    assert_string_equal(e.base_url, "http://h:1/api/");
    assert_string_equal(e.api_key, "intercepted");
    assert_null(e.kind);
    assert_false(e.disable_thinking);
    endpoint_deinit(&e);
}

static void an_unknown_kind_is_refused(void **state) {
    (void)state;
    refused((struct endpoint_args){.kind = "vlm"}, "unknown endpoint kind: 'vlm' (use vllm,");
}

static void what_is_missing_is_named_with_the_remedy(void **state) {
    (void)state;
    refused((struct endpoint_args){.kind = "openai"},
            "openai: no api_key (set OPENAI_API_KEY or give --api-key-env)");
    refused((struct endpoint_args){.kind = "hf_router"}, "hf_router: no api_key");
    refused((struct endpoint_args){.kind = "vllm"},
            "vllm: no base_url (set VLLM_URL or give --base-url)");
    refused((struct endpoint_args){0}, "endpoint: no base_url (give --base-url)");
    refused((struct endpoint_args){.base_url = "http://h/v1"}, "endpoint: no model (give --model)");
    refused(
        (struct endpoint_args){.base_url = "http://h/v1", .model = "m", .api_key_env = "MY_KEY"},
        "the variable 'MY_KEY' is not set");
}

static void an_empty_variable_counts_as_unset(void **state) {
    (void)state;
    setenv("OPENAI_API_KEY", "", 1);
    refused((struct endpoint_args){.kind = "openai"}, "openai: no api_key");
}

static void a_key_comes_from_the_variable_that_is_named(void **state) {
    (void)state;
    setenv("MY_KEY", "sk-test'$(leak)", 1);
    setenv("OPENAI_API_KEY", "sk-other", 1);
    struct endpoint e = resolved((struct endpoint_args){.kind = "openai", .api_key_env = "MY_KEY"});
    assert_string_equal(e.api_key, "sk-test'$(leak)");
    assert_string_equal(e.key_name, "MY_KEY");
    endpoint_deinit(&e);
}

static void thinking_follows_the_argument(void **state) {
    (void)state;
    setenv("VLLM_URL", "http://h", 1);
    bool off = false;
    struct endpoint e = resolved((struct endpoint_args){.kind = "vllm", .disable_thinking = &off});
    assert_false(e.disable_thinking);
    endpoint_deinit(&e);
}

static void what_no_header_or_address_may_hold_is_refused_and_no_secret_shown(void **state) {
    (void)state;
    struct endpoint_args args = {.base_url = "http://h/v1", .model = "m"};
    args.api_key = "sk-secret\n";
    refused(args, "api_key from the argument holds a blank");
    setenv("MY_KEY", "sk-secret x", 1);
    args = (struct endpoint_args){.base_url = "http://h/v1", .model = "m", .api_key_env = "MY_KEY"};
    refused(args, "api_key from MY_KEY holds a blank");
    args = (struct endpoint_args){.model = "m", .base_url = "https://u:sk-secret@h/v1"};
    refused(args, "holds a user or password");
    static const char *const urls[] = {"h:8000/v1",     "ftp://h/v1",  "http://",
                                       "http:///v1",    "https://?",   "http://h/v1?key=1",
                                       "http://h/v1#x", "http://h h/", "http://h\n"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        args.base_url = urls[i];
        refused(args, "base_url");
    }
    args.base_url = "HTTPS://h/v1";
    args.model = "a\nb";
    refused(args, "model");
}

static void the_summary_lists_the_three_kinds(void **state) {
    (void)state;
    setenv("VLLM_URL", "http://h", 1);
    AUTO_JSON json_t *all = catalog_summary();
    assert_int_equal(json_array_size(all), 3);
    AUTO_BUF struct buf text = {0};
    assert_int_equal(json_compact(json_array_get(all, 0), &text), 0);
    assert_string_equal(
        buf_cstr(&text),
        "{\"kind\":\"vllm\",\"base_url_env\":\"VLLM_URL\",\"api_key_env\":\"VLLM_API_KEY\","
        "\"model_env\":\"VLLM_MODEL\",\"default_base_url\":null,\"default_model\":"
        "\"Qwen/Qwen3.5-4B\",\"disable_thinking_default\":true,\"configured\":true}");
    assert_true(json_is_false(json_object_get(json_array_get(all, 1), "configured")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(all, 2), "base_url_env")),
                        "HF_ROUTER_BASE_URL");
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(json_string_value(json_object_get(json_array_get(all, i), "kind")),
                            catalog_kinds[i]);
    }
}

static const struct CMUnitTest tests[] = {
    TEST(arguments_win_over_the_environment),
    TEST(the_environment_wins_over_the_defaults),
    TEST(an_address_of_a_kind_ends_in_one_v1),
    TEST(an_address_given_outright_stays_as_it_is),
    TEST(an_unknown_kind_is_refused),
    TEST(what_is_missing_is_named_with_the_remedy),
    TEST(an_empty_variable_counts_as_unset),
    TEST(a_key_comes_from_the_variable_that_is_named),
    TEST(thinking_follows_the_argument),
    TEST(what_no_header_or_address_may_hold_is_refused_and_no_secret_shown),
    TEST(the_summary_lists_the_three_kinds),
};

RUN_TESTS(tests)
