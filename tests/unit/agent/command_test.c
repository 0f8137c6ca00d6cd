/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "agent/agent.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static struct agent_config config(void) {
    return (struct agent_config){
        .model = "org/model", .sandbox_home = "/home/user", .agent_cmd = "my-agent --fast"};
}

static const struct agent_job job = {.instruction = "-do \"this\"\n",
                                     .base_url = "http://127.0.0.1:7000/v1",
                                     .api_key = "the-token",
                                     .deadline_unix = 2000000000};

static const char *env_of(const struct agent_plan *p, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; p->env[i]; i++) {
        if (strncmp(p->env[i], name, n) == 0 && p->env[i][n] == '=') {
            return p->env[i] + n + 1;
        }
    }
    return NULL;
}

static void the_command_is_shell_text_with_the_instruction_as_input(void **state) {
    (void)state;
    struct agent_plan p = {0};
    struct err err = {0};
    struct agent_config c = config();
    assert_ok(agent_command.plan(&c, &job, &p, &err), &err);
    assert_string_equal(p.argv[0], "/bin/bash");
    assert_string_equal(p.argv[1], "-lc");
    assert_string_equal(p.argv[2], "my-agent --fast");
    assert_null(p.argv[3]);
    assert_string_equal(p.input, job.instruction);
    assert_string_equal(p.cwd, "/home/user/workdir");
    assert_string_equal(p.log_path, "/home/user/logs/agent/command.log");
    assert_int_equal(p.n_files, 1);
    assert_string_equal(p.files[0].path, env_of(&p, "SNAFFLE_INSTRUCTION_FILE"));
    assert_string_equal(p.files[0].content, job.instruction);
    assert_string_equal(env_of(&p, "SNAFFLE_DEADLINE"), "2000000000");
    agent_plan_deinit(&p);
}

static void extra_variables_win_over_all_but_the_way_to_the_model(void **state) {
    (void)state;
    struct agent_plan p = {0};
    struct err err = {0};
    struct agent_config c = config();
    AUTO_JSON json_t *extra =
        json_pack("{s:s, s:s, s:s, s:s}", "OPENAI_BASE_URL", "http://elsewhere/v1",
                  "OPENAI_API_KEY", "another", "OPENAI_MODEL", "mine", "PATH", "/only");
    c.extra_env = extra;
    assert_ok(agent_command.plan(&c, &job, &p, &err), &err);
    assert_string_equal(env_of(&p, "OPENAI_BASE_URL"), job.base_url);
    assert_string_equal(env_of(&p, "OPENAI_API_KEY"), "the-token");
    assert_string_equal(env_of(&p, "OPENAI_MODEL"), "mine");
    assert_string_equal(env_of(&p, "PATH"), "/only");
    agent_plan_deinit(&p);
}

static void the_model_is_named_as_the_endpoint_calls_it(void **state) {
    (void)state;
    static const struct {
        const char *model;
        const char *want;
    } rows[] = {{"org/model", "org/model"},
                {"intercepted/org/model", "org/model"},
                {"intercepted/", "intercepted/"},
                {"plain", "plain"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct agent_plan p = {0};
        struct err err = {0};
        struct agent_config c = config();
        c.model = rows[i].model;
        assert_ok(agent_command.plan(&c, &job, &p, &err), &err);
        assert_string_equal(env_of(&p, "OPENAI_MODEL"), rows[i].want);
        assert_string_equal(env_of(&p, "MODEL"), rows[i].want);
        agent_plan_deinit(&p);
    }
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    struct agent_plan p = {0};
    struct err err = {0};
    struct agent_config c = config();
    struct agent_job empty = job;
    c.agent_cmd = NULL;
    assert_int_equal(agent_command.plan(&c, &job, &p, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "agent_cmd"));
    c = config();
    c.model = "";
    assert_int_equal(agent_command.plan(&c, &job, &p, &err), ERR_INPUT);
    c = config();
    empty.instruction = " \n";
    assert_int_equal(agent_command.plan(&c, &empty, &p, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "instruction"));
    assert_null(p.argv);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_command_is_shell_text_with_the_instruction_as_input),
    cmocka_unit_test(extra_variables_win_over_all_but_the_way_to_the_model),
    cmocka_unit_test(the_model_is_named_as_the_endpoint_calls_it),
    cmocka_unit_test(what_is_missing_is_named),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
