/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rollout/agent_place.h"
#include "rollout/capture.h"

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
        .base_url = s->model_url,
        .program = s->program,
        .api_key = s->token,
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
    int r = factory_mounts_agent(s->factory) ? 0 : session_place_agent(s, err);
    r = r < 0 ? r : session_open_model(s, err);
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
