/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "agent/plan.h"
#include "base/json.h"
#include "base/mem.h"

/*
 * The agent that is a command of the user's: any program that takes its model's address and key
 * from OPENAI_BASE_URL and OPENAI_API_KEY.
 */

#define INSTRUCTION_FILE "/task/instruction.md"
#define UNNAMED_MODEL "intercepted/" /* Before a name that nobody rewrites on its way. */

static int check(const struct agent_config *config, const struct agent_job *job, struct err *err) {
    TRY(plan_check_home(config->sandbox_home, err));
    if (!config->agent_cmd || !*config->agent_cmd) {
        return err_set(err, ERR_INPUT, "agent_cmd: the agent 'command' needs one (--agent-cmd)");
    }
    if (!job->instruction || !job->instruction[strspn(job->instruction, " \t\r\n\v\f")]) {
        return err_set(err, ERR_INPUT, "instruction: is empty");
    }
    if (!config->model || !*config->model) {
        return err_set(err, ERR_INPUT, "model: is empty");
    }
    return 0;
}

static int set_under_home(struct agent_plan *p, const char *name, const char *format,
                          const char *home, struct err *err) {
    AUTO_BUF struct buf text = {0};
    for (const char *c = format; *c; c++) {
        int r = *c == '~' ? buf_adds(&text, home) : buf_add(&text, c, 1);
        if (r < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return plan_set_env(p, name, buf_cstr(&text), err);
}

static int set_model(struct agent_plan *p, const char *model, struct err *err) {
    struct sv name = sv_from(model);
    if (sv_starts_with(name, SV(UNNAMED_MODEL)) && name.n > strlen(UNNAMED_MODEL)) {
        model += strlen(UNNAMED_MODEL);
    }
    TRY(plan_set_env(p, "OPENAI_MODEL", model, err));
    return plan_set_env(p, "MODEL", model, err);
}

static int add_extra(struct agent_plan *p, const json_t *extra, struct err *err) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)extra, name, value) {
        if (!json_is_string(value)) {
            return err_set(err, ERR_INPUT, "extra_env: %s: want a string, got %s", name,
                           json_kind(value));
        }
        TRY(plan_set_env(p, name, json_string_value(value), err));
    }
    return 0;
}

/* The user's variables weigh more than defaults, but can't lead the agent past the gateway. */
static int set_env(const struct agent_config *config, const struct agent_job *job,
                   struct agent_plan *p, struct err *err) {
    const char *home = config->sandbox_home;
    TRY(set_under_home(p, "PATH",
                       "~/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       home, err));
    TRY(plan_set_env(p, "LANG", "C.UTF-8", err));
    TRY(plan_set_env(p, "TERM", "dumb", err));
    TRY(plan_set_env(p, "SHELL", "/bin/bash", err));
    TRY(set_model(p, config->model, err));
    TRY(add_extra(p, config->extra_env, err));
    TRY(plan_set_env(p, "HOME", home, err));
    TRY(plan_set_env(p, "OPENAI_BASE_URL", job->base_url, err));
    TRY(plan_set_env(p, "OPENAI_API_KEY", job->api_key, err));
    TRY(set_under_home(p, "SNAFFLE_INSTRUCTION_FILE", "~" INSTRUCTION_FILE, home, err));
    return plan_set_deadline(p, job->deadline_unix, err);
}

static int build(const struct agent_config *config, const struct agent_job *job,
                 struct agent_plan *p, struct err *err) {
    const char *home = config->sandbox_home;
    const char *const args[] = {"/bin/bash", "-lc", config->agent_cmd};
    for (size_t i = 0; i < ARRAY_LEN(args); i++) {
        TRY(plan_add_arg(p, args[i], err));
    }
    TRY(plan_add_file(p, home, INSTRUCTION_FILE, sv_from(job->instruction), err));
    TRY(set_env(config, job, p, err));
    TRY(plan_set_path(&p->cwd, home, "/workdir", err));
    TRY(plan_set_path(&p->log_path, home, "/logs/agent/command.log", err));
    p->input = mem_strdup(job->instruction);
    return p->input ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int plan(const struct agent_config *config, const struct agent_job *job,
                struct agent_plan *out, struct err *err) {
    static const struct plan_maker maker = {.check = check, .build = build};
    return plan_make(&maker, config, job, out, err);
}

/* Nothing is known of its calls, so all of them count. */
static enum agent_call classify(const json_t *request, struct sv session, struct sv parent) {
    (void)request;
    (void)session;
    (void)parent;
    return AGENT_CALL_MAIN;
}

const struct agent agent_command = {
    .name = "command",
    .plan = plan,
    .classify = classify,
};
