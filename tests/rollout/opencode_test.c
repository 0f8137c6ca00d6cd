/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include "agent/install.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/agents.h"
#include "tests/rollout/ground.h"
#include "tests/rollout/model.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/* The real OpenCode against the scripted model. */

static char *agents; /* Where this machine's own agents are; found before the test's state is. */

static void find_agents(void) {
    struct err err = {0};
    struct agent_installed found = {0};
    if (rollout_agents_dir(&agents, &err) < 0 ||
        agent_find_installed(agents, &agent_opencode, NULL, &found, &err) < 0) {
        free(TAKE(agents));
    }
    agent_installed_deinit(&found);
}

#define NEED_OPENCODE()                                                                            \
    do {                                                                                           \
        NEED_SANDBOX();                                                                            \
        if (!agents) {                                                                             \
            skip_because("opencode is not installed: run 'snaffle agent install opencode'");       \
        }                                                                                          \
    } while (0)

static size_t size_at(const json_t *turn, const char *field) {
    return json_array_size(json_object_get(turn, field));
}

/* Ids, log-probabilities and the engine's own count agree in every turn. */
static void assert_exact(const struct rollout_result *r) {
    AUTO_FREE char *trace = ground_read(r, "trace.jsonl");
    unsigned agent_turns = 0;
    for (char *line = trace, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_error_t why;
        AUTO_JSON json_t *turn = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, &why);
        if (!turn) {
            fail_msg("%s at %d: %.300s", why.text, why.position,
                     line + (why.position > 100 ? why.position - 100 : 0));
        }
        size_t ids = size_at(turn, "completion_token_ids");
        assert_true(ids > 0);
        assert_int_equal(ids, size_at(turn, "per_token_logps"));
        assert_int_equal(ids, size_at(turn, "completion_tokens"));
        assert_int_equal(ids, json_integer_value(json_object_get(json_object_get(turn, "usage"),
                                                                 "completion_tokens")));
        assert_int_equal(
            size_at(turn, "prompt_token_ids"),
            json_integer_value(json_object_get(json_object_get(turn, "usage"), "prompt_tokens")));
        assert_string_equal(json_string_value(json_object_get(turn, "end")), "complete");
        agent_turns +=
            strcmp(json_string_value(json_object_get(turn, "role")), "agent") == 0 ? 1 : 0;
    }
    assert_true(agent_turns >= 2);
}

static void opencode_solves_the_example_and_every_token_is_there(void **state) {
    NEED_OPENCODE();
    struct ground *g = *state;
    struct model m = {0};
    model_start(&m, g, SOURCE_ROOT "/examples/binary_search/model_script.json");
    g->options.running = NULL;
    g->options.logprobs_processed = true; /* The scripted model's are. */
    struct task task = {0};
    struct err err = {0};
    struct rollout_result r = {0};
    assert_ok(task_load(SOURCE_ROOT "/examples/binary_search", &task, &err), &err);
    assert_ok(rollout_run(ground_factory(g), &task, NULL, NULL, &r, &err), &err);
    model_stop(&m);
    if (!r.has_reward || r.reward != 1) {
        AUTO_FREE char *log = ground_read(&r, "agent.log");
        fail_msg("%s %s %s\n%s", r.status, r.cause ? r.cause : "", r.error ? r.error : "", log);
    }
    assert_string_equal(r.status, "ok");
    assert_null(r.cause);
    assert_exact(&r);
    assert_string_equal(json_string_value(json_object_get(r.json, "capture_level")), "tokens");
    size_t i;
    json_t *turn;
    json_array_foreach(json_object_get(r.json, "proxy_turns"), i, turn) {
        bool agent = strcmp(json_string_value(json_object_get(turn, "role")), "agent") == 0;
        assert_int_equal(json_is_true(json_object_get(turn, "trainable")), agent);
    }
    rollout_result_deinit(&r);
    task_deinit(&task);
}

/* The agent's own tools look at its environment; the check then looks at all it could write. */
static const char prying_script[] =
    "{\"scenes\": [{\"when\": {\"tools\": false}, \"reply\": {\"text\": \"Prying\"}},"
    " {\"when\": {\"call\": 1}, \"reply\": {\"tool_calls\": [{\"name\": \"bash\", \"arguments\":"
    " {\"command\": \"env > env.txt; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline > all.txt\","
    "  \"description\": \"look\"}}]}}],"
    " \"otherwise\": {\"reply\": {\"text\": \"Done.\"}}}";

static const char prying_task[] =
    "{'instruction': 'Look around.', 'verify': ['test -s env.txt && test -s all.txt',"
    " '! grep -r -a -q sk-real[-]key /home/user', 'grep -q SNAFFLE_DEADLINE= env.txt']}";

static void the_real_key_is_nowhere_the_agent_can_look(void **state) {
    NEED_OPENCODE();
    struct ground *g = *state;
    struct model m = {0};
    struct err err = {0};
    char script[128];
    snprintf(script, sizeof script, "%s/script.json", g->dir);
    assert_ok(file_write(script, sv_from(prying_script), 0644, &err), &err);
    model_start(&m, g, script);
    g->options.running = NULL;
    struct rollout_result r = {0};
    ground_run(g, prying_task, NULL, &r);
    model_stop(&m);
    if (!r.has_reward || r.reward != 1) {
        AUTO_FREE char *text = json_dumps(r.json, JSON_INDENT(1));
        fail_msg("%s", text);
    }
    rollout_result_deinit(&r);
    /* The engine got the key, from the gateway, and nobody else has it. */
    AUTO_BUF struct buf seen = {0};
    assert_ok(file_read(m.log, 64u << 20, &seen, &err), &err);
    assert_non_null(strstr(buf_cstr(&seen), GROUND_KEY));
    assert_int_equal(unlink(m.log), 0);
    ground_assert_nowhere(g->dir, GROUND_KEY);
}

/* The engine is busy once; a sub-agent works; then the context is nearly full. */
static const char kinds_script[] =
    "{\"scenes\": [{\"when\": {\"call\": 1, \"user_has\": \"main work\"}, \"times\": 1,"
    " \"fault\": {\"kind\": \"status\", \"status\": 503}},"
    " {\"when\": {\"call\": 1, \"user_has\": \"main work\", \"tools\": true}, \"times\": 1, "
    "\"reply\":"
    " {\"tool_calls\": [{\"name\": \"task\", \"arguments\": {\"description\": \"d\", \"prompt\":"
    " \"sub work\", \"subagent_type\": \"general\"}}]}},"
    " {\"when\": {\"user_has\": \"sub work\", \"tools\": true}, \"times\": 1,"
    " \"reply\": {\"text\": \"Sub.\"}},"
    " {\"when\": {\"call\": 2, \"tools\": true}, \"times\": 1, \"usage\":"
    " {\"prompt_tokens\": 130000, \"total_tokens\": 130100}, \"reply\": {\"tool_calls\":"
    " [{\"name\": \"bash\", \"arguments\": {\"command\": \"true\", \"description\": \"d\"}}]}}],"
    " \"otherwise\": {\"reply\": {\"text\": \"Done.\"}}}";

static bool lists(const json_t *turn, const char *code) {
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(turn, "findings"), i, one) {
        if (strcmp(json_string_value(one), code) == 0) {
            return true;
        }
    }
    return false;
}

static json_t *turns_of(const struct rollout_result *r) {
    AUTO_FREE char *trace = ground_read(r, "trace.jsonl");
    json_t *turns = json_array();
    for (char *line = trace, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *turn = json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
        assert_non_null(turn);
        json_array_append_new(turns, turn);
    }
    return turns;
}

static void each_call_of_opencode_has_its_role_in_the_trace(void **state) {
    NEED_OPENCODE();
    struct ground *g = *state;
    struct model m = {0};
    struct err err = {0};
    char script[128];
    snprintf(script, sizeof script, "%s/script.json", g->dir);
    assert_ok(file_write(script, sv_from(kinds_script), 0644, &err), &err);
    model_start(&m, g, script);
    g->options.running = NULL;
    g->options.logprobs_processed = true;
    struct rollout_result r = {0};
    ground_run(g, "{'instruction': 'main work', 'verify': ['true']}", NULL, &r);
    model_stop(&m);
    AUTO_JSON json_t *turns = turns_of(&r);
    /* The busy engine, the same again, the sub-agent, a full context, the summary, on from it. */
    static const struct {
        const char *role, *code;
        bool trainable;
    } want[] = {{"discarded", "not_complete", false}, {"agent", NULL, true},
                {"agent", "subagent", true},          {"agent", "prompt_usage_mismatch", false},
                {"auxiliary", "summary", false},      {"agent", NULL, true}};
    AUTO_FREE char *all = json_dumps(json_object_get(r.json, "findings"), 0);
    if (json_array_size(turns) != ARRAY_LEN(want)) {
        fail_msg("%zu turns: %s", json_array_size(turns), all);
    }
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        const json_t *turn = json_array_get(turns, i);
        assert_string_equal(json_string_value(json_object_get(turn, "role")), want[i].role);
        assert_int_equal(json_is_true(json_object_get(turn, "trainable")), want[i].trainable);
        assert_true(json_is_null(json_object_get(turn, "parent")));
        assert_true(!want[i].code || lists(turn, want[i].code));
    }
    const json_t *first = json_object_get(json_array_get(turns, 0), "request");
    assert_true(json_equal(first, json_object_get(json_array_get(turns, 1), "request")));
    rollout_result_deinit(&r);
}

static int set_up(void **state) {
    if (agents) {
        AUTO_FREE char *here = file_join(world_state(), "agents");
        (void)unlink(here);
        assert_int_equal(symlink(agents, here), 0);
    }
    return ground_set_up(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, ground_take_down)

static const struct CMUnitTest tests[] = {
    CASE(opencode_solves_the_example_and_every_token_is_there),
    CASE(the_real_key_is_nowhere_the_agent_can_look),
    CASE(each_call_of_opencode_has_its_role_in_the_trace),
};

int main(void) {
    find_agents();
    world_enter(/* as_user= */ false);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(agents);
    return world_leave() ? failed : 1;
}
