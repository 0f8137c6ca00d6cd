/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "api/cancel.h"
#include "api/factory.h"
#include "api/sized.h"

#define OPTIONS_LEAST (offsetof(snaffle_session_options, progress_arg) + sizeof(void *))

static void on_progress(void *arg, const struct rollout_event *e) {
    const snaffle_session *s = arg;
    snaffle_event event = {
        .size = sizeof event,
        .phase = rollout_phase_name(e->phase),
        .text = e->text,
        .detail = e->detail,
        .tick = e->tick,
        .elapsed_s = e->elapsed_s,
        .calls = e->calls,
        .completion_tokens = e->completion_tokens,
    };
    s->progress(s->progress_arg, &event);
}

static int take_task(snaffle_session *s, const snaffle_session_options *o, struct err *err) {
    if (!o->task_json == !o->task_path) {
        return err_set(err, ERR_INPUT, "options: give either task_json or task_path");
    }
    return o->task_path ? task_load(o->task_path, &s->task, err)
                        : task_parse(sv_from(o->task_json), "task_json", NULL, &s->task, err);
}

static void take_control(snaffle_session *s, const snaffle_session_options *o) {
    s->progress = o->progress;
    s->progress_arg = o->progress_arg;
    s->control = (struct rollout_control){
        .cancel = o->cancel ? o->cancel->soft : NULL,
        .hard = o->cancel ? o->cancel->hard : NULL,
        .progress = o->progress ? on_progress : NULL,
        .progress_arg = s,
    };
}

int api_session_begin(const snaffle_session_options *options, snaffle_session **out,
                      struct err *err) {
    snaffle_session_options o;
    int r = sized_take(&o, sizeof o, options, OPTIONS_LEAST, err);
    if (r < 0) {
        return r;
    }
    snaffle_session *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    r = take_task(s, &o, err);
    if (r < 0) {
        api_session_free(s);
        return r;
    }
    take_control(s, &o);
    s->names = (struct rollout_names){.group = o.group, .rollout = o.rollout, .attempt = o.attempt};
    *out = s;
    return 0;
}

void api_session_free(snaffle_session *s) {
    if (s) {
        rollout_session_free(s->inner);
        task_deinit(&s->task);
        free(s);
    }
}
