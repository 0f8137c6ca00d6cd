/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/rollout/ground.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/proc.h"
#include "tests/testing.h"

#define FILE_MAX (64u << 20)

static int shell_plan(const struct agent_config *config, const struct agent_job *job,
                      struct agent_plan *out, struct err *err) {
    const char *argv[] = {"/bin/bash", "-c", job->instruction};
    out->argv = calloc(ARRAY_LEN(argv) + 1, sizeof *out->argv);
    out->env = calloc(6, sizeof *out->env);
    if (!out->argv || !out->env) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < ARRAY_LEN(argv); i++) {
        out->argv[i] = mem_strdup(argv[i]);
    }
    out->env[0] = mem_printf("HOME=%s", config->sandbox_home);
    out->env[1] = mem_strdup("PATH=/usr/local/bin:/usr/bin:/bin");
    out->env[2] = mem_printf("BASE_URL=%s", job->base_url);
    out->env[3] = mem_printf("TOKEN=%s", job->api_key);
    out->env[4] = mem_printf("SNAFFLE_DEADLINE=%.0f", job->deadline_unix);
    out->cwd = mem_printf("%s/workdir", config->sandbox_home);
    out->log_path = mem_printf("%s/logs/agent/agent.log", config->sandbox_home);
    return 0;
}

const struct agent shell_agent = {.name = "shell", .plan = shell_plan};

bool ground_has_sandbox(char *why, size_t size) {
    struct err err = {0};
    if (sandbox_local.check(&err) < 0) {
        snprintf(why, size, "%s", err.msg);
        return false;
    }
    return true;
}

int ground_set_up(void **state) {
    struct ground *g = calloc(1, sizeof *g);
    struct err err = {0};
    assert_non_null(g);
    snprintf(g->dir, sizeof g->dir, "/tmp/snaffle-rollout-XXXXXX");
    assert_non_null(mkdtemp(g->dir));
    AUTO_JSON json_t *layer = json_pack("{s:s, s:s, s:s}", "base_url", "http://127.0.0.1:9/v1",
                                        "api_key", GROUND_KEY, "model", "org/model");
    const struct config_defaults defaults = {agent_opencode.default_version, sandbox_local.home};
    assert_ok(config_build(&(struct config_layer){layer, "test"}, 1, &defaults, &g->config, &err),
              &err);
    g->options = (struct rollout_options){
        .running = &shell_agent,
        .mode = ROLLOUT_TRANSPARENT_PROXY,
        .config = &g->config.agent,
        .runs_dir = g->dir,
    };
    *state = g;
    return 0;
}

int ground_take_down(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    ground_drop_factory(g);
    config_deinit(&g->config);
    assert_ok(file_remove_tree(g->dir, &err), &err);
    free(g);
    return 0;
}

struct rollout_factory *ground_factory(struct ground *g) {
    struct err err = {0};
    if (!g->factory) {
        assert_ok(rollout_factory_new(&g->options, &g->factory, &err), &err);
    }
    return g->factory;
}

void ground_drop_factory(struct ground *g) {
    rollout_factory_free(TAKE(g->factory));
}

void ground_task(const char *text, struct task *out) {
    struct err err = {0};
    AUTO_FREE char *json = mem_strdup(text);
    for (char *c = json; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    assert_ok(task_parse(sv_from(json), "test", NULL, out, &err), &err);
}

static char kept_sources[32];

void ground_keep_sources(void) {
    int fd = open(SOURCE_ROOT, O_PATH | O_DIRECTORY); /* Programs of the tests inherit it. */
    assert_true(fd >= 0);
    snprintf(kept_sources, sizeof kept_sources, "/proc/self/fd/%d", fd);
}

const char *ground_sources(void) {
    return kept_sources[0] ? kept_sources : SOURCE_ROOT;
}

static void check_schema(const char *schema, const char *dir, const char *name) {
    struct err err = {0};
    AUTO_FREE char *file = file_join(dir, name);
    AUTO_FREE char *rules = mem_printf("%s/docs/schema/%s", ground_sources(), schema);
    AUTO_FREE char *checker = mem_printf("%s/tests/schema.py", ground_sources());
    const char *argv[] = {"python3", checker, rules, file, NULL};
    struct proc_result result = {0};
    assert_ok(proc_run(&(struct proc_options){.argv = argv}, &result, &err), &err);
    if (result.exit_code != 0) {
        fail_msg("%s: %s%s", name, buf_cstr(&result.out), buf_cstr(&result.err));
    }
    proc_result_deinit(&result);
}

void ground_roll(struct ground *g, const char *text, const struct rollout_control *control,
                 struct rollout_result *out) {
    struct err err = {0};
    struct task task = {0};
    ground_task(text, &task);
    assert_ok(rollout_run(ground_factory(g), &task, NULL, control, out, &err), &err);
    task_deinit(&task);
    assert_int_equal(ground_sandboxes(), 0);
}

void ground_check(const struct ground *g, const struct rollout_result *out) {
    check_schema("result.schema.json", out->dir, "result.json");
    check_schema("task.schema.json", out->dir, "task.json");
    if (g->options.mode == ROLLOUT_TRANSPARENT_PROXY) {
        check_schema("trace.schema.json", out->dir, "trace.jsonl");
    }
}

void ground_run(struct ground *g, const char *text, const struct rollout_control *control,
                struct rollout_result *out) {
    ground_roll(g, text, control, out);
    ground_check(g, out);
}

char *ground_read(const struct rollout_result *r, const char *name) {
    struct err err = {0};
    struct buf text = {0};
    AUTO_FREE char *path = file_join(r->dir, name);
    assert_ok(file_read(path, FILE_MAX, &text, &err), &err);
    return buf_take(&text);
}

static const char *unwanted;

static int look(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st;
    (void)at;
    struct err err = {0};
    AUTO_BUF struct buf text = {0};
    if (kind == FTW_F && file_read(path, FILE_MAX, &text, &err) == 0 &&
        sv_find(buf_sv(&text), sv_from(unwanted)) != (size_t)-1) {
        fail_msg("%s holds '%s'", path, unwanted);
    }
    return 0;
}

void ground_assert_nowhere(const char *dir, const char *text) {
    unwanted = text;
    assert_int_equal(nftw(dir, look, 16, FTW_PHYS), 0);
}

bool ground_runs(const char *const *argv, int limit_s, char *line, size_t size) {
    struct err err = {0};
    struct proc_result result = {0};
    int r = proc_run(&(struct proc_options){.argv = argv, .deadline = deadline_in_s(limit_s)},
                     &result, &err);
    snprintf(line, size, "%s", r < 0 ? err.msg : buf_cstr(&result.out));
    line[strcspn(line, "\n")] = '\0';
    bool good = r == 0 && result.exit_code == 0;
    proc_result_deinit(&result);
    return good;
}

size_t ground_sandboxes(void) {
    struct err err = {0};
    AUTO_JSON json_t *list = NULL;
    assert_ok(sandbox_local.list(NULL, &list, &err), &err);
    return json_array_size(list);
}
