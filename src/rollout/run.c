/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "rollout/result.h"
#include "rollout/session_impl.h"

#define RETRY_BACKOFF_S 5.0       /* Doubles: what was down a moment ago is given time, ... */
#define RETRY_BACKOFF_MAX_S 300.0 /* ... and looked for again now and then, however long it is. */

void rollout_result_deinit(struct rollout_result *r) {
    json_decref(r->json);
    free(r->dir);
    *r = (struct rollout_result){0};
}

int rollout_result_exit_status(const struct rollout_result *r) {
    if (strcmp(r->status, "ok") == 0) {
        return 0;
    }
    if (strcmp(r->status, "cancelled") == 0) {
        return err_exit_status(ERR_CANCELLED);
    }
    return r->lacks ? err_exit_status(ERR_ENVIRONMENT) : 1;
}

/* Gives the views into the result's JSON. */
static void take_result(struct rollout_session *s, struct rollout_result *out) {
    const json_t *json = s->result;
    out->json = json_incref(s->result);
    out->status = json_string_value(json_object_get(json, "status"));
    out->cause = json_string_value(json_object_get(json, "cause"));
    out->error = json_string_value(json_object_get(json, "error"));
    const json_t *reward = json_object_get(json, "reward");
    out->has_reward = json_is_number(reward);
    out->reward = json_number_value(reward);
    out->lacks = s->error_code == ERR_ENVIRONMENT || s->error_code == ERR_UNSUPPORTED;
    out->dir = mem_strdup(s->dir);
}

/* From setup to verdict. What fails on the way is noted in the session: its result tells. */
static void play(struct rollout_session *s) {
    struct err noted = {0};
    struct rollout_verdict verdict;
    int exit_code = 0;
    if (session_prepare(s, &noted) < 0 || rollout_session_start_agent(s, &noted) < 0) {
        return;
    }
    int r = rollout_session_wait(s, /* timeout_s= */ 0, &exit_code, &noted);
    if (r >= 0 || r == ERR_TIMEOUT) {
        r = rollout_session_verify(s, &verdict, &noted);
    }
    if (r < 0) {
        log_debug("%s: %s", s->name, noted.msg);
    }
}

/* Seconds until the table of causes wants another attempt; negative: it does not. */
static double wanted_in_s(const struct rollout_session *s, unsigned tries) {
    const struct rollout_options *o = &s->factory->o;
    if (cancel_thrown(s->control.cancel) || !rollout_cause_retried(s->cause, tries, o->retries)) {
        return -1;
    }
    if (rollout_cause_row(s->cause)->retry == ROLLOUT_RETRY_ONCE) {
        return 0;
    }
    double first_s = o->retry_backoff_s > 0 ? o->retry_backoff_s : RETRY_BACKOFF_S;
    return fmin(ldexp(first_s, (int)tries - 1), RETRY_BACKOFF_MAX_S);
}

int rollout_try(struct rollout_factory *f, const struct task *task,
                const struct rollout_names *names, const struct rollout_control *control,
                unsigned tries, struct rollout_result *out, double *again_s, struct err *err) {
    struct rollout_session *s = NULL;
    int r = session_new(f, task, names, control, &s, err);
    *again_s = -1;
    if (r < 0) {
        return r;
    }
    play(s);
    struct err closing = {0};
    r = rollout_session_close(s, &closing);
    if (s->result) { /* A failed teardown stands among its findings. */
        take_result(s, out);
        *again_s = wanted_in_s(s, tries);
        session_say(s, out->error, "done in %.1f s: %s", (double)(clock_ms() - s->began_ms) / 1000,
                    out->status);
        r = 0;
    } else if (err) {
        *err = closing;
    }
    rollout_session_free(s);
    return r;
}

int rollout_run(struct rollout_factory *f, const struct task *task,
                const struct rollout_names *names, const struct rollout_control *control,
                struct rollout_result *out, struct err *err) {
    struct rollout_names n = names ? *names : (struct rollout_names){0};
    const struct cancel *cancel = control ? control->cancel : NULL;
    char rollout[STORE_NAME_MAX + 1] = "";
    for (unsigned tries = 1;; tries++) {
        double again_s = -1;
        struct err cancelled = {0};
        struct rollout_result one = {0};
        int r = rollout_try(f, task, &n, control, tries, &one, &again_s, err);
        if (r < 0 || again_s < 0 || cancel_sleep(cancel, deadline_in_s(again_s), &cancelled) < 0) {
            *out = one;
            return r;
        }
        const char *made = json_string_value(json_object_get(one.json, "rollout"));
        memcpy(rollout, made, strlen(made) + 1);
        n.rollout = rollout;
        n.attempt = (n.attempt ? n.attempt : 1) + 1;
        rollout_result_deinit(&one);
    }
}
