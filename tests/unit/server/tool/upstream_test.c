/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/upstream.h"

#include "tests/testing.h"

/* The endpoint of such a call; fails the case when there is none. */
static struct endpoint chosen(const struct tool_options *o, struct upstream_asked asked) {
    struct endpoint e = {0};
    struct err err = {0};
    assert_ok(upstream_choose(o, &asked, &e, &err), &err);
    return e;
}

static void refused(const struct tool_options *o, struct upstream_asked asked, int code,
                    const char *words) {
    struct endpoint e = {0};
    struct err err = {0};
    assert_err(upstream_choose(o, &asked, &e, &err), code, &err, words);
    assert_null(strstr(err.msg, "sk-"));
}

static int set_env(void **state) {
    (void)state;
    setenv("OPENAI_API_KEY", "sk-servers", 1); // NOLINT(concurrency-mt-unsafe)
    setenv("VLLM_URL", "http://127.0.0.1:8000", 1);
    setenv("VLLM_API_KEY", "sk-vllm", 1);
    unsetenv("OPENAI_BASE_URL");
    unsetenv("HF_ROUTER_API_KEY");
    return 0;
}

static void a_kind_has_the_server_s_address_and_key(void **state) {
    (void)state;
    struct tool_options o = {.is_public = true};
    struct endpoint e = chosen(&o, (struct upstream_asked){.endpoint = "openai"});
    assert_string_equal(e.base_url, "https://api.openai.com/v1");
    assert_string_equal(e.api_key, "sk-servers");
    assert_string_equal(e.model, "gpt-4o-mini");
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.endpoint = "vllm", .model = "m"});
    assert_string_equal(e.base_url, "http://127.0.0.1:8000/v1");
    assert_string_equal(e.model, "m");
    assert_true(e.disable_thinking);
    endpoint_deinit(&e);
    refused(&o, (struct upstream_asked){.endpoint = "hf_router"}, ERR_INPUT, "no api_key");
    refused(&o, (struct upstream_asked){0}, ERR_INPUT, "which model?");
}

static void the_operator_s_endpoint_stands_in(void **state) {
    (void)state;
    struct tool_options o = {
        .endpoint = {.base_url = "http://10.0.0.9/v1", .api_key = "sk-own", .model = "own"}};
    struct endpoint e = chosen(&o, (struct upstream_asked){0});
    assert_string_equal(e.base_url, "http://10.0.0.9/v1");
    assert_string_equal(e.api_key, "sk-own");
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.model = "other", .api_key = "sk-callers"});
    assert_string_equal(e.model, "other");
    assert_string_equal(e.api_key, "sk-callers");
    endpoint_deinit(&e);
    o.endpoint = (struct endpoint_args){.kind = "vllm", .model = "own"};
    e = chosen(&o, (struct upstream_asked){.endpoint = "vllm"});
    assert_string_equal(e.model, "own"); /* The same kind: it is the operator's. */
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.endpoint = "openai"});
    assert_string_equal(e.model, "gpt-4o-mini");
    endpoint_deinit(&e);
}

static void thinking_is_the_operator_s_unless_the_call_says(void **state) {
    (void)state;
    bool no = false;
    bool yes = true;
    struct tool_options o = {.endpoint = {.disable_thinking = &no}};
    struct endpoint e = chosen(&o, (struct upstream_asked){.endpoint = "vllm"});
    assert_false(e.disable_thinking);
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.base_url = "http://127.0.0.1:1", .model = "m"});
    assert_false(e.disable_thinking);
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.endpoint = "vllm", .disable_thinking = &yes});
    assert_true(e.disable_thinking);
    endpoint_deinit(&e);
}

static void what_is_missing_is_told_by_the_names_of_arguments(void **state) {
    (void)state;
    struct tool_options o = {0};
    refused(&o, (struct upstream_asked){.base_url = "http://127.0.0.1:1"}, ERR_INPUT,
            "no model (give model)");
    refused(&o, (struct upstream_asked){.endpoint = "hf_router"}, ERR_INPUT, "or give api_key)");
}

static void the_server_s_key_goes_to_no_address_of_the_call_s(void **state) {
    (void)state;
    const char *const allow[] = {"upstream=127.0.0.2", NULL};
    struct tool_options o = {.allow = allow};
    refused(&o, (struct upstream_asked){.endpoint = "openai", .base_url = "http://127.0.0.1:9/v1"},
            ERR_INPUT, "the server's own key for 'openai'");
    struct endpoint e = chosen(
        &o, (struct upstream_asked){.endpoint = "vllm", .base_url = "http://127.0.0.3:8000"});
    assert_string_equal(e.api_key, "intercepted");
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.base_url = "http://127.0.0.3:8000", .model = "m"});
    assert_string_equal(e.api_key, "intercepted");
    endpoint_deinit(&e);
    e = chosen(&o,
               (struct upstream_asked){.endpoint = "vllm", .base_url = "http://127.0.0.1:8000/v1"});
    assert_string_equal(e.api_key, "sk-vllm");
    endpoint_deinit(&e);
    e = chosen(&o,
               (struct upstream_asked){.endpoint = "openai", .base_url = "http://127.0.0.2/v1"});
    assert_string_equal(e.api_key, "sk-servers");
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.endpoint = "openai",
                                           .base_url = "http://127.0.0.1:9/v1",
                                           .api_key = "sk-callers"});
    assert_string_equal(e.api_key, "sk-callers");
    endpoint_deinit(&e);
}

static void a_public_server_asks_only_what_is_allowed(void **state) {
    (void)state;
    const char *const allow[] = {"upstream=http://127.0.0.2:*", NULL};
    struct tool_options o = {.is_public = true, .allow = allow};
    refused(&o,
            (struct upstream_asked){
                .base_url = "http://127.0.0.1:22/v1", .api_key = "sk-x", .model = "m"},
            ERR_DENIED, "--allow 'upstream=127.0.0.1'");
    struct endpoint e =
        chosen(&o, (struct upstream_asked){.base_url = "http://127.0.0.2:1/v1", .model = "m"});
    endpoint_deinit(&e);
    e = chosen(&o, (struct upstream_asked){.base_url = "http://127.0.0.1:8000/v1", .model = "m"});
    endpoint_deinit(&e); /* Where vllm is. */
    o.is_public = false;
    e = chosen(&o, (struct upstream_asked){.base_url = "http://127.0.0.1:22/v1", .model = "m"});
    endpoint_deinit(&e);
}

static void link_local_addresses_are_refused_however_spelled(void **state) {
    (void)state;
    const char *const allow[] = {"upstream=*", NULL};
    struct tool_options o = {.allow = allow};
    static const char *const bad[] = {"http://169.254.169.254/v1",
                                      "http://[fe80::1]/v1",
                                      "http://[::ffff:169.254.169.254]/v1",
                                      "http://[::169.254.1.1]/v1",
                                      "http://[64:ff9b::a9fe:a9fe]/v1",
                                      "http://[2002:a9fe:a9fe::1]/v1",
                                      "http://2852039166/v1",
                                      "http://0xa9fea9fe/v1",
                                      "http://169.254.43518/v1",
                                      "http://[febf::1]:8000/v1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct endpoint e = {0};
        struct err err = {0};
        struct upstream_asked asked = {.base_url = bad[i], .model = "m"};
        int r = upstream_choose(&o, &asked, &e, &err);
        if (r >= 0 || !(strstr(err.msg, "link-local") || strstr(err.msg, "cannot resolve"))) {
            fail_msg("%s: %s", bad[i], r < 0 ? err.msg : "was taken");
        }
    }
    struct err err = {0};
    assert_err(upstream_check_host("169.254.0.1", &err), ERR_DENIED, &err, "link-local");
    assert_err(upstream_check_host("2852039166", &err), ERR_DENIED, &err, "link-local");
    assert_err(upstream_check_host("fd00:ec2::254", &err), ERR_DENIED, &err, "a cloud's own");
    assert_ok(upstream_check_host("127.0.0.1", &err), &err);
    assert_ok(upstream_check_host("fec0::1", &err), &err);
    assert_err(upstream_check_host("no-such-host.invalid", &err), ERR_INPUT, &err,
               "cannot resolve 'no-such-host.invalid'");
}

#define TEST(name) cmocka_unit_test_setup(name, set_env)
static const struct CMUnitTest tests[] = {
    TEST(a_kind_has_the_server_s_address_and_key),
    TEST(the_operator_s_endpoint_stands_in),
    TEST(thinking_is_the_operator_s_unless_the_call_says),
    TEST(what_is_missing_is_told_by_the_names_of_arguments),
    TEST(the_server_s_key_goes_to_no_address_of_the_call_s),
    TEST(a_public_server_asks_only_what_is_allowed),
    TEST(link_local_addresses_are_refused_however_spelled),
};

RUN_TESTS(tests)
