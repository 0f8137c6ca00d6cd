/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/opencode.h"

#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static json_t *json_of(const char *text) {
    struct err err = {0};
    json_t *value = NULL;
    assert_ok(json_parse(sv_from(text), "test", &value, &err), &err);
    return value;
}

static struct agent_config config_with(const json_t *disabled) {
    return (struct agent_config){.provider = "openai",
                                 .base_url = "https://real.invalid/v1",
                                 .api_key = "real-key",
                                 .model = "org/name/with/slashes",
                                 .request_timeout_ms = 1234,
                                 .disabled_tools = disabled,
                                 .run_format = "json",
                                 .sandbox_home = "/home/user",
                                 .proxy_max_tokens_cap = 16384,
                                 .proxy_top_logprobs = 5};
}

static const struct agent_job job = {.instruction = "Do it.\n",
                                     .base_url = "http://127.0.0.1:7000/v1",
                                     .api_key = "token",
                                     .title = "run-1",
                                     .deadline_unix = 1800000000.4};

static void build(const struct agent_config *c, const struct agent_job *j, struct agent_plan *out) {
    struct err err = {0};
    assert_ok(agent_opencode.plan(c, j, out, &err), &err);
}

static const char *file_of(const struct agent_plan *p, const char *path) {
    for (size_t i = 0; i < p->n_files; i++) {
        if (strcmp(p->files[i].path, path) == 0) {
            return p->files[i].content;
        }
    }
    return NULL;
}

static json_t *config_of(const struct agent_plan *p) {
    const char *text = file_of(p, "/home/user/.config/opencode/opencode.json");
    assert_non_null(text);
    return json_of(text);
}

/* The value at "a.b.c". */
static const json_t *at(const json_t *value, const char *path) {
    struct sv rest = sv_from(path);
    while (rest.n > 0 && value) {
        size_t n = sv_find(rest, SV("."));
        n = n == (size_t)-1 ? rest.n : n;
        AUTO_FREE char *key = mem_strndup(rest.p, n);
        value = json_object_get(value, key);
        rest = sv_cut(rest, n + 1);
    }
    return value;
}

static const char *text_at(const json_t *value, const char *path) {
    const char *text = json_string_value(at(value, path));
    return text ? text : "";
}

static const char *env_of(const struct agent_plan *p, const char *name) {
    size_t n = strlen(name);
    const char *found = NULL;
    for (size_t i = 0; p->env[i]; i++) {
        if (strncmp(p->env[i], name, n) == 0 && p->env[i][n] == '=') {
            assert_null(found); /* A name stands once. */
            found = p->env[i] + n + 1;
        }
    }
    return found;
}

static void the_defaults_stand_in_the_config_file(void **state) {
    (void)state;
    AUTO_JSON json_t *disabled = json_of("[\"webfetch\", \"question\"]");
    struct agent_config c = config_with(disabled);
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    AUTO_JSON json_t *v = config_of(&p);
    assert_string_equal(text_at(v, "model"), "intercepted/name/with/slashes");
    assert_string_equal(text_at(v, "small_model"), "intercepted/name/with/slashes");
    assert_string_equal(text_at(v, "share"), "disabled");
    assert_true(json_is_false(at(v, "autoupdate")));
    assert_string_equal(text_at(v, "provider.intercepted.npm"), "@ai-sdk/openai-compatible");
    const json_t *options = at(v, "provider.intercepted.options");
    assert_string_equal(text_at(options, "baseURL"), "http://127.0.0.1:7000/v1");
    assert_string_equal(text_at(options, "apiKey"), "token");
    assert_int_equal(json_integer_value(at(options, "timeout")), 1234);
    assert_int_equal(json_integer_value(at(options, "headerTimeout")), 1234);
    assert_int_equal(json_integer_value(at(options, "chunkTimeout")), 1234);
    assert_true(json_is_false(at(v, "tools.webfetch")) && json_is_false(at(v, "tools.question")));
    assert_int_equal(json_object_size(at(v, "tools")), 2);
    assert_string_equal(text_at(v, "permission.question"), "deny");
    const json_t *limit = json_object_get(
        json_object_get(at(v, "provider.intercepted.models"), "name/with/slashes"), "limit");
    assert_int_equal(json_integer_value(json_object_get(limit, "output")), 16384);
    assert_int_equal(json_integer_value(json_object_get(limit, "context")), 131072);
}

static void the_program_is_started_without_the_prompt_among_its_arguments(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    const char *want[] = {"/opt/snaffle/agent/opencode", "run", "--auto", "--title=run-1",
                          "--format=json"};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_string_equal(p.argv[i], want[i]);
    }
    assert_null(p.argv[ARRAY_LEN(want)]);
    assert_string_equal(p.input, job.instruction);
    assert_non_null(file_of(&p, "/home/user/.config/opencode/package-lock.json"));
    assert_string_equal(file_of(&p, "/home/user/task/instruction.md"), job.instruction);
    assert_null(file_of(&p, "/home/user/task/system.md"));
    assert_string_equal(p.cwd, "/home/user/workdir");
    assert_string_equal(p.log_path, "/home/user/logs/agent/opencode.jsonl");
}

static void the_default_run_format_adds_no_argument(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    c.run_format = "default";
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    assert_string_equal(p.argv[3], "--title=run-1");
    assert_null(p.argv[4]);
}

static void nothing_of_the_real_endpoint_is_in_the_plan(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    for (size_t i = 0; i < p.n_files; i++) {
        assert_null(strstr(p.files[i].content, "real"));
    }
    for (size_t i = 0; p.env[i]; i++) {
        assert_null(strstr(p.env[i], "real"));
        assert_null(strstr(p.env[i], "token"));
    }
    for (size_t i = 0; p.argv[i]; i++) {
        assert_null(strstr(p.argv[i], "token"));
    }
}

static void everything_follows_from_the_home(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    c.sandbox_home = "/srv/agent";
    c.system_prompt = "Be terse.";
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    for (size_t i = 0; i < p.n_files; i++) {
        assert_ptr_equal(strstr(p.files[i].path, "/srv/agent/"), p.files[i].path);
        assert_null(strstr(p.files[i].content, "/home/user"));
    }
    for (size_t i = 0; p.env[i]; i++) {
        assert_null(strstr(p.env[i], "/home/user"));
    }
    assert_string_equal(env_of(&p, "HOME"), "/srv/agent");
    assert_string_equal(env_of(&p, "OPENCODE_CONFIG"), "/srv/agent/.config/opencode/opencode.json");
    assert_string_equal(p.cwd, "/srv/agent/workdir");
}

static void a_system_prompt_is_read_from_its_file(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    c.system_prompt = "Be {env:HOME} terse.";
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    AUTO_JSON json_t *v = config_of(&p);
    assert_string_equal(file_of(&p, "/home/user/task/system.md"), c.system_prompt);
    assert_string_equal(text_at(v, "agent.build.prompt"), "{file:/home/user/task/system.md}");
}

static void a_whitelist_begins_with_all_tools_off(void **state) {
    (void)state;
    AUTO_JSON json_t *disabled = json_of("[\"webfetch\"]");
    AUTO_JSON json_t *enabled = json_of("[\"bash\", \"write\", \"edit\", \"apply_patch\"]");
    struct agent_config c = config_with(disabled);
    c.enabled_tools = enabled;
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    AUTO_JSON json_t *v = config_of(&p);
    AUTO_BUF struct buf tools = {0};
    assert_int_equal(json_compact(at(v, "tools"), &tools), 0);
    assert_string_equal(buf_cstr(&tools), "{\"*\":false,\"bash\":true,\"edit\":true}");
    assert_string_equal(env_of(&p, "OPENCODE_PURE"), "1");
}

static void an_empty_whitelist_leaves_nothing(void **state) {
    (void)state;
    AUTO_JSON json_t *enabled = json_array();
    struct agent_config c = config_with(NULL);
    c.enabled_tools = enabled;
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    AUTO_JSON json_t *v = config_of(&p);
    AUTO_BUF struct buf tools = {0};
    assert_int_equal(json_compact(at(v, "tools"), &tools), 0);
    assert_string_equal(buf_cstr(&tools), "{\"*\":false,\"edit\":false}");
}

static void a_choice_among_the_file_tools_takes_a_plugin(void **state) {
    (void)state;
    AUTO_JSON json_t *disabled = json_of("[\"edit\"]");
    struct agent_config c = config_with(disabled);
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    const char *plugin = file_of(&p, "/home/user/.config/opencode/plugin/snaffle-tools.js");
    assert_non_null(plugin);
    assert_non_null(strstr(plugin, "edit: false"));
    assert_null(strstr(plugin, "write"));
    assert_null(env_of(&p, "OPENCODE_PURE"));
    AUTO_JSON json_t *v = config_of(&p);
    assert_int_equal(json_object_size(at(v, "tools")), 0);
}

static void the_user_s_own_settings_come_last(void **state) {
    (void)state;
    AUTO_JSON json_t *extra = json_of("{\"share\": \"auto\", \"instructions\": [\"more.md\"],"
                                      " \"plugin\": [\"file:///x.js\"], \"permission\": {\"bash\":"
                                      " \"ask\"}, \"provider\": {\"other\": {\"npm\": \"x\"}}}");
    struct agent_config c = config_with(NULL);
    c.extra_opencode_json = extra;
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    AUTO_JSON json_t *v = config_of(&p);
    assert_string_equal(text_at(v, "share"), "auto");
    assert_string_equal(text_at(v, "permission.bash"), "ask");
    assert_string_equal(text_at(v, "permission.question"), "deny");
    assert_non_null(at(v, "provider.intercepted"));
    assert_string_equal(text_at(v, "provider.other.npm"), "x");
    const json_t *instructions = at(v, "instructions");
    assert_int_equal(json_array_size(instructions), 3);
    assert_string_equal(json_string_value(json_array_get(instructions, 0)),
                        "/home/user/workdir/AGENTS.md");
    assert_string_equal(json_string_value(json_array_get(instructions, 2)), "more.md");
    assert_null(env_of(&p, "OPENCODE_PURE")); /* Or the user's plugin would not load. */
    assert_null(file_of(&p, "/home/user/.config/opencode/package-lock.json"));
    assert_int_equal(json_array_size(at(extra, "instructions")), 1);
}

static void the_environment_is_whole_and_holds_no_foreign_endpoint(void **state) {
    (void)state;
    AUTO_JSON json_t *env = json_of("{\"OPENAI_API_KEY\": \"k\", \"OPENAI_BASE_URL\": \"u\","
                                    " \"MINE\": \"a b\", \"HOME\": \"/elsewhere\","
                                    " \"LANG\": \"de_DE.UTF-8\"}");
    struct agent_config c = config_with(NULL);
    c.extra_env = env;
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    assert_string_equal(env_of(&p, "MINE"), "a b");
    assert_string_equal(env_of(&p, "HOME"), "/home/user");
    assert_string_equal(env_of(&p, "LANG"), "de_DE.UTF-8");
    assert_string_equal(env_of(&p, "SNAFFLE_DEADLINE"), "1800000000");
    assert_string_equal(env_of(&p, "OPENCODE_DISABLE_PROJECT_CONFIG"), "1");
    assert_non_null(strstr(env_of(&p, "PATH"), "/usr/bin"));
    for (size_t i = 0; p.env[i]; i++) {
        assert_null(strstr(p.env[i], "OPENAI_"));
    }
    const char *catalogue = env_of(&p, "OPENCODE_MODELS_PATH");
    assert_string_equal(file_of(&p, catalogue), "{}\n");
}

static void no_deadline_sets_no_variable(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    struct agent_job j = job;
    j.deadline_unix = 0;
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &j, &p);
    assert_null(env_of(&p, "SNAFFLE_DEADLINE"));
}

static void a_small_window_leaves_room_for_the_prompt(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    struct agent_job j = job;
    c.model = "m";
    c.proxy_max_tokens_cap = 0;
    j.context_tokens = 8192;
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &j, &p);
    AUTO_JSON json_t *v = config_of(&p);
    const json_t *limit = at(v, "provider.intercepted.models.m.limit");
    assert_int_equal(json_integer_value(json_object_get(limit, "context")), 8192);
    assert_int_equal(json_integer_value(json_object_get(limit, "output")), 2048);
}

static void no_request_timeout_means_none(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    c.request_timeout_ms = 0;
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &job, &p);
    AUTO_JSON json_t *v = config_of(&p);
    assert_true(json_is_false(at(v, "provider.intercepted.options.timeout")));
    assert_true(json_is_false(at(v, "provider.intercepted.options.headerTimeout")));
}

static void a_byte_order_mark_is_doubled_since_one_is_eaten(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    struct agent_job j = job;
    j.instruction = "\xef\xbb\xbfx";
    AUTO(agent_plan_deinit) struct agent_plan p = {0};
    build(&c, &j, &p);
    assert_string_equal(p.input, "\xef\xbb\xbf\xef\xbb\xbfx");
    assert_string_equal(file_of(&p, "/home/user/task/instruction.md"), j.instruction);
}

static void assert_refused(const struct agent_config *c, const struct agent_job *j,
                           const char *words) {
    struct err err = {0};
    struct agent_plan p = {0};
    assert_err(agent_opencode.plan(c, j, &p, &err), ERR_INPUT, &err, words);
    assert_null(p.argv);
}

static void bad_settings_are_refused_by_name(void **state) {
    (void)state;
    struct agent_config c = config_with(NULL);
    struct agent_job j = job;
    AUTO_JSON json_t *numbers = json_of("[1]");
    AUTO_JSON json_t *bad_name = json_of("{\"A B\": \"x\"}");
    AUTO_JSON json_t *bad_value = json_of("{\"A\": 1}");
    AUTO_JSON json_t *proxy = json_of("{\"https_proxy\": \"x\"}");
    c.sandbox_home = "home";
    assert_refused(&c, &j, "sandbox_home: 'home'");
    c.sandbox_home = "/home/a}b";
    assert_refused(&c, &j, "sandbox_home");
    c.sandbox_home = "/home/../etc";
    assert_refused(&c, &j, "sandbox_home");
    c = config_with(NULL);
    c.run_format = "xml";
    assert_refused(&c, &j, "run_format: want 'json' or 'default', got 'xml'");
    c = config_with(numbers);
    assert_refused(&c, &j, "disabled_tools: want names of tools, got a number");
    c = config_with(NULL);
    c.enabled_tools = numbers;
    assert_refused(&c, &j, "enabled_tools");
    c = config_with(NULL);
    c.extra_env = bad_name;
    assert_refused(&c, &j, "extra_env: 'A B'");
    c.extra_env = bad_value;
    assert_refused(&c, &j, "extra_env: A: want a string, got a number");
    c.extra_env = proxy;
    assert_refused(&c, &j, "extra_env: 'https_proxy' would hide the model");
    c = config_with(NULL);
    c.extra_opencode_json = numbers;
    assert_refused(&c, &j, "extra_opencode_json: want an object, got an array");
    c = config_with(NULL);
    j.instruction = " \n";
    assert_refused(&c, &j, "instruction: is empty");
}

static void agents_are_found_by_name(void **state) {
    (void)state;
    assert_ptr_equal(agent_find("opencode"), &agent_opencode);
    assert_null(agent_find("open"));
    for (size_t i = 0; agent_names[i]; i++) {
        assert_non_null(agent_find(agent_names[i]));
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_defaults_stand_in_the_config_file),
    cmocka_unit_test(the_program_is_started_without_the_prompt_among_its_arguments),
    cmocka_unit_test(the_default_run_format_adds_no_argument),
    cmocka_unit_test(nothing_of_the_real_endpoint_is_in_the_plan),
    cmocka_unit_test(everything_follows_from_the_home),
    cmocka_unit_test(a_system_prompt_is_read_from_its_file),
    cmocka_unit_test(a_whitelist_begins_with_all_tools_off),
    cmocka_unit_test(an_empty_whitelist_leaves_nothing),
    cmocka_unit_test(a_choice_among_the_file_tools_takes_a_plugin),
    cmocka_unit_test(the_user_s_own_settings_come_last),
    cmocka_unit_test(the_environment_is_whole_and_holds_no_foreign_endpoint),
    cmocka_unit_test(no_deadline_sets_no_variable),
    cmocka_unit_test(a_small_window_leaves_room_for_the_prompt),
    cmocka_unit_test(no_request_timeout_means_none),
    cmocka_unit_test(a_byte_order_mark_is_doubled_since_one_is_eaten),
    cmocka_unit_test(bad_settings_are_refused_by_name),
    cmocka_unit_test(agents_are_found_by_name),
};

RUN_TESTS(tests)
