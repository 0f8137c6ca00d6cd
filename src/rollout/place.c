/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rollout/session_impl.h"

#define MODEL_URL "http://127.0.0.1:7000/v1" /* SANDBOX_MODEL_PORT, as the agent is told. */

static int open_gateway_session(struct rollout_session *s, struct err *err) {
    const struct rollout_options *o = &s->factory->o;
    const struct agent_config *c = o->config;
    bool captures = factory_captures(s->factory);
    unsigned serial;
    AUTO_FREE char *policy = factory_policy(s->factory, &serial);
    int r = gateway_session_open(s->factory->gateway,
                                 &(struct gateway_session_options){
                                     .name = s->name,
                                     .upstream_url = c->base_url,
                                     .api_key = c->api_key,
                                     .key_name = o->key_name,
                                     .model_override = c->model,
                                     .edits = captures,
                                     .record = captures,
                                     .top_logprobs = c->proxy_top_logprobs,
                                     .max_tokens_cap = c->proxy_max_tokens_cap,
                                     .disable_thinking = c->proxy_disable_thinking,
                                     .neutral_sampling = o->neutral_sampling || c->neutral_sampling,
                                     .policy_version = policy,
                                     .loop_break_calls = (unsigned)c->loop_break_calls,
                                     .loop_break_s = c->loop_break_s,
                                     .header_timeout_s = (double)c->request_timeout_ms / 1000,
                                 },
                                 &s->gateway, err);
    return r < 0 ? r : factory_enter(s, serial, err);
}

int session_plan(struct rollout_session *s, double deadline_unix, struct agent_plan *out,
                 struct err *err) {
    const struct rollout_factory *f = s->factory;
    struct agent_config config = *f->o.config;
    AUTO_FREE char *whole_model = NULL;
    if (!factory_captures(f)) {
        /* Agents ask for what follows the first slash, and here nobody puts the rest back. */
        config.model = whole_model = mem_printf("intercepted/%s", config.model);
        if (!whole_model) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    struct agent_job job = {
        .instruction = s->task->instruction,
        .base_url = MODEL_URL,
        .api_key = gateway_session_token(s->gateway),
        .title = s->name,
        .deadline_unix = deadline_unix,
    };
    return f->agent->plan(&config, &job, out, err);
}

static int place_plan(struct rollout_session *s, const struct agent_plan *plan, struct err *err) {
    for (size_t i = 0; i < plan->n_files; i++) {
        const struct agent_file *file = &plan->files[i];
        int r = sandbox_write_file(s->sandbox, file->path, sv_from(file->content), file->mode, err);
        if (r < 0) {
            return r;
        }
    }
    s->log_path = mem_strdup(plan->log_path);
    return s->log_path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int session_place_files(struct rollout_session *s, const struct task_file *files, size_t n,
                        struct err *err) {
    for (size_t i = 0; i < n; i++) {
        AUTO_FREE char *path = task_file_path(&files[i], sandbox_home(s->sandbox));
        if (!path) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        int r = sandbox_write_file(s->sandbox, path, (struct sv){files[i].bytes, files[i].n}, 0644,
                                   err);
        if (r < 0) {
            return err_wrap(err, "cannot place '%s'", files[i].path);
        }
    }
    return 0;
}

int session_place(struct rollout_session *s, struct err *err) {
    session_say(s, NULL, "placing %s and %zu files", s->factory->agent->name, s->task->n_files);
    int r = open_gateway_session(s, err);
    if (r < 0) {
        return r;
    }
    struct agent_plan plan = {0};
    r = session_plan(s, /* deadline_unix= */ 0, &plan, err);
    if (r >= 0) {
        r = place_plan(s, &plan, err);
    }
    agent_plan_deinit(&plan);
    return r < 0 ? r : session_place_files(s, s->task->files, s->task->n_files, err);
}
