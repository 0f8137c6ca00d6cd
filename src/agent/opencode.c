/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/opencode.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* OpenCode installs a helper package into its config folder at each start unless a lock file names
 * it; only plugins that import it need it, and nothing of ours does. */
#define PACKAGE_LOCK "{\"packages\":{\"\":{\"dependencies\":{\"@opencode-ai/plugin\":\"*\"}}}}\n"

static int check(const struct agent_config *config, const struct agent_job *job, struct err *err) {
    int r = plan_check_home(config->sandbox_home, err);
    if (r < 0) {
        return r;
    }
    if (!job->instruction || !job->instruction[strspn(job->instruction, " \t\r\n\v\f")]) {
        return err_set(err, ERR_INPUT, "instruction: is empty");
    }
    if (!config->model || !*config->model) {
        return err_set(err, ERR_INPUT, "model: is empty");
    }
    if (!config->run_format ||
        (strcmp(config->run_format, "json") != 0 && strcmp(config->run_format, "default") != 0)) {
        return err_set(err, ERR_INPUT, "run_format: want 'json' or 'default', got '%s'",
                       config->run_format ? config->run_format : "");
    }
    return 0;
}

static int add_config(const struct agent_config *config, const struct agent_job *job,
                      const json_t *tools, struct agent_plan *p, struct err *err) {
    AUTO_JSON json_t *value = NULL;
    AUTO_BUF struct buf text = {0};
    int r = opencode_config_build(config, job, tools, &value, err);
    if (r == 0 && json_pretty(value, &text) < 0) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    return r < 0 ? r
                 : plan_add_file(p, config->sandbox_home, OPENCODE_CONFIG_FILE, buf_sv(&text), err);
}

/* The user's own, which may import the helper package. */
static bool has_plugins(const struct agent_config *config) {
    return json_object_get(config->extra_opencode_json, "plugin");
}

static int add_package_lock(const char *home, struct agent_plan *p, struct err *err) {
    int r = plan_add_file(p, home, OPENCODE_CONFIG_DIR "/package-lock.json", SV(PACKAGE_LOCK), err);
    return r < 0 ? r
                 : plan_add_file(p, home, OPENCODE_CONFIG_DIR "/node_modules/.keep", SV(""), err);
}

static int add_files(const struct agent_config *config, const struct agent_job *job,
                     const struct opencode_tools *tools, struct agent_plan *p, struct err *err) {
    const char *home = config->sandbox_home;
    int r = add_config(config, job, tools->switches, p, err);
    if (r == 0) { /* The built-in catalogue of models costs seconds to parse. */
        r = plan_add_file(p, home, OPENCODE_CATALOGUE_FILE, SV("{}\n"), err);
    }
    if (r == 0 && !has_plugins(config)) {
        r = add_package_lock(home, p, err);
    }
    if (r == 0 && tools->plugin.len > 0) {
        r = plan_add_file(p, home, OPENCODE_CONFIG_DIR "/plugin/snaffle-tools.js",
                          buf_sv(&tools->plugin), err);
    }
    if (r == 0 && config->system_prompt && *config->system_prompt) {
        r = plan_add_file(p, home, OPENCODE_SYSTEM_FILE, sv_from(config->system_prompt), err);
    }
    return r < 0 ? r
                 : plan_add_file(p, home, "/task/instruction.md", sv_from(job->instruction), err);
}

/* An argument with a blank in it would reach the model with quotes around it, and one that begins
 * with a dash as an option. What comes by stdin arrives as it is, but for one byte order mark. */
static int set_input(const struct agent_job *job, struct agent_plan *p, struct err *err) {
    static const char bom[] = "\xef\xbb\xbf";
    bool doubled = sv_starts_with(sv_from(job->instruction), SV("\xef\xbb\xbf"));
    p->input = mem_printf("%s%s", doubled ? bom : "", job->instruction);
    return p->input ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int add_args(const struct agent_config *config, const struct agent_job *job,
                    struct agent_plan *p, struct err *err) {
    /* With a title of its own the session asks no model for one. */
    AUTO_FREE char *title =
        mem_printf("--title=%s", job->title && *job->title ? job->title : "run");
    const char *program = job->program ? job->program : agent_opencode.program_path;
    const char *const args[] = {program, "run", "--auto", title};
    for (size_t i = 0; i < ARRAY_LEN(args); i++) {
        int r = plan_add_arg(p, args[i], err);
        if (r < 0) {
            return r;
        }
    }
    return strcmp(config->run_format, "json") == 0 ? plan_add_arg(p, "--format=json", err) : 0;
}

static int build(const struct agent_config *config, const struct agent_job *job,
                 struct agent_plan *p, struct err *err) {
    struct opencode_tools tools = {0};
    int r = opencode_tools_build(config, &tools, err);
    bool plugins = tools.plugin.len > 0 || has_plugins(config);
    r = r < 0 ? r : add_files(config, job, &tools, p, err);
    r = r < 0 ? r : set_input(job, p, err);
    r = r < 0 ? r : add_args(config, job, p, err);
    r = r < 0 ? r : opencode_env_build(config, job, plugins, p, err);
    r = r < 0 ? r : plan_set_path(&p->cwd, config->sandbox_home, OPENCODE_WORKDIR, err);
    r = r < 0
            ? r
            : plan_set_path(&p->log_path, config->sandbox_home, "/logs/agent/opencode.jsonl", err);
    opencode_tools_deinit(&tools);
    return r;
}

static int plan(const struct agent_config *config, const struct agent_job *job,
                struct agent_plan *out, struct err *err) {
    static const struct plan_maker maker = {.check = check, .build = build};
    return plan_make(&maker, config, job, out, err);
}

const struct agent agent_opencode = {
    .name = "opencode",
    .mount_path = "/opt/snaffle/agent",
    .program_path = "/opt/snaffle/agent/opencode",
    .home_path = "/.opencode/bin/opencode",
    .installer = "https://opencode.ai/install",
    .default_version = OPENCODE_VERSION,
    .must_call = true,
    .plan = plan,
    .classify = opencode_classify,
};
