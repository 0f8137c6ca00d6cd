/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/hostile/hostile.h"

#include "base/file.h"

#define AGENT_MAX (64u << 10)

static bool is_long;

void hostile_enter(int argc, char **argv) {
    bool as_user = false;
    for (int i = 1; i < argc; i++) {
        as_user = as_user || strcmp(argv[i], "--as-user") == 0;
        is_long = is_long || strcmp(argv[i], "--long") == 0;
    }
    ground_keep_sources();
    world_enter(as_user);
    cmocka_set_message_output(CM_OUTPUT_TAP);
}

bool hostile_is_long(void) {
    return is_long;
}

/* Python reads its program from the shell's here-document: no file of it stands inside. */
static char *instruction(const char *agent, const char *vars) {
    struct err err = {0};
    AUTO_BUF struct buf script = {0};
    AUTO_FREE char *path = mem_printf("%s/tests/hostile/agents/%s", ground_sources(), agent);
    assert_ok(file_read(path, AGENT_MAX, &script, &err), &err);
    bool is_python = strstr(agent, ".py") != NULL;
    char *text = mem_printf("%s\n%s%s%s", vars ? vars : "",
                            is_python ? "exec python3 - <<'END-OF-AGENT'\n" : "", buf_cstr(&script),
                            is_python ? "END-OF-AGENT\n" : "");
    assert_non_null(text);
    return text;
}

void hostile_task(const char *agent, const char *vars, const char *task, struct task *out) {
    struct err err = {0};
    AUTO_FREE char *json = mem_strdup(task);
    AUTO_FREE char *script = instruction(agent, vars);
    for (char *c = json; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    json_error_t why;
    AUTO_JSON json_t *whole = json_loads(json, 0, &why);
    if (!whole) {
        fail_msg("the task of %s: %s", agent, why.text);
    }
    json_object_set_new(whole, "instruction", json_string(script));
    AUTO_FREE char *text = json_dumps(whole, JSON_COMPACT);
    assert_ok(task_parse(sv_from(text), "test", NULL, out, &err), &err);
}

void hostile_roll(struct ground *g, const char *agent, const char *vars, const char *text,
                  const struct rollout_control *control, struct rollout_result *out) {
    struct err err = {0};
    struct task task = {0};
    hostile_task(agent, vars, text, &task);
    assert_ok(rollout_run(ground_factory(g), &task, NULL, control, out, &err), &err);
    task_deinit(&task);
    assert_int_equal(ground_sandboxes(), 0);
    ground_check(g, out);
}

static void say_all(const struct rollout_result *r) {
    AUTO_FREE char *results = json_dumps(json_object_get(r->json, "verify_results"), 0);
    AUTO_FREE char *log = json_dumps(json_object_get(r->json, "agent_log_tail"), JSON_ENCODE_ANY);
    print_message("# verify: %s\n# agent: %s\n", results, log);
}

void hostile_assert_ok(const struct rollout_result *r, const char *agent) {
    if (strcmp(r->status, "ok") != 0) {
        say_all(r);
        fail_msg("%s: %s/%s: %s", agent, r->status, r->cause ? r->cause : "-",
                 r->error ? r->error : "");
    }
}

void hostile_assert_reward(const struct rollout_result *r, const char *agent, double want) {
    hostile_assert_ok(r, agent);
    if (!r->has_reward || r->reward != want) {
        say_all(r);
        fail_msg("%s: want reward %g, got %s %g", agent, want, r->has_reward ? "one of" : "none",
                 r->reward);
    }
}

const char *hostile_file(const struct rollout_result *r, const char *name) {
    AUTO_FREE char *path = mem_printf("/home/user/workdir/%s", name);
    const char *text = json_string_value(json_object_get(json_object_get(r->json, "files"), path));
    return text ? text : "";
}

bool hostile_has_finding(const struct rollout_result *r, const char *code) {
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(r->json, "findings"), i, one) {
        if (strcmp(json_string_value(json_object_get(one, "code")), code) == 0) {
            return true;
        }
    }
    return false;
}
