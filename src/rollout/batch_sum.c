/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/batch_sum.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

static bool has_status(const struct batch_item *item, const char *status) {
    return item->status && strcmp(item->status, status) == 0;
}

static void add_item(const struct batch_item *item, struct batch_totals *t) {
    t->rollouts++;
    t->calls += item->calls;
    t->completion_tokens += item->completion_tokens;
    t->own_tokens += item->kept ? 0 : item->completion_tokens;
    if (item->state == BATCH_RUNNING) {
        t->running++;
        t->in_phase[item->phase]++;
        return;
    }
    if (item->state == BATCH_WAITING || item->state == BATCH_RESTING) {
        t->waiting += item->state == BATCH_WAITING;
        t->resting += item->state == BATCH_RESTING;
        return;
    }
    t->kept += item->kept;
    t->ok += has_status(item, "ok");
    t->failed += has_status(item, "failed");
    t->cancelled += has_status(item, "cancelled");
    t->again += item->attempt > 1;
    t->rewarded += item->has_reward;
    t->reward_sum += item->has_reward ? item->reward : 0;
}

void batch_totals(const struct batch_plan *p, struct batch_totals *out) {
    *out = (struct batch_totals){0};
    for (size_t i = 0; i < p->n; i++) {
        add_item(&p->items[i], out);
    }
}

double batch_pass_at(size_t n, size_t c, size_t k) {
    double none = 1;
    if (n - c < k) {
        return 1;
    }
    for (size_t i = n - c + 1; i <= n; i++) {
        none *= 1 - (double)k / (double)i;
    }
    return 1 - none;
}

struct group {
    size_t rewarded;
    size_t passed;
    double reward_sum;
    size_t ok;
};

/* The group of task number `t`. */
static struct group group_of(const struct batch_plan *p, size_t t) {
    struct group g = {0};
    for (size_t i = t * p->per_task; i < (t + 1) * p->per_task; i++) {
        const struct batch_item *item = &p->items[i];
        g.ok += has_status(item, "ok");
        g.rewarded += item->has_reward;
        g.passed += item->has_reward && item->reward >= BATCH_PASS_REWARD;
        g.reward_sum += item->has_reward ? item->reward : 0;
    }
    return g;
}

size_t batch_mean_pass_at(const struct batch_plan *p, size_t k, double *out) {
    size_t groups = 0;
    double sum = 0;
    for (size_t t = 0; t < p->n / p->per_task; t++) {
        struct group g = group_of(p, t);
        if (g.rewarded >= k) {
            sum += batch_pass_at(g.rewarded, g.passed, k);
            groups++;
        }
    }
    *out = groups ? sum / (double)groups : 0;
    return groups;
}

double batch_eta_s(size_t done, size_t left, double elapsed_s) {
    return left == 0 ? 0 : done == 0 ? -1 : (double)left * elapsed_s / (double)done;
}

json_t *batch_causes(const struct batch_plan *p) {
    AUTO_JSON json_t *causes = json_object();
    for (size_t i = 0; i < p->n; i++) {
        const char *cause = p->items[i].cause;
        if (cause) {
            json_int_t n = json_integer_value(json_object_get(causes, cause));
            if (json_object_set_new(causes, cause, json_integer(n + 1)) < 0) {
                return NULL;
            }
        }
    }
    return TAKE(causes);
}

static json_t *mean_or_null(double sum, size_t n) {
    return n ? json_real(sum / (double)n) : json_null();
}

static json_t *text_or_null(const char *text) {
    return text ? json_text(sv_from(text)) : json_null();
}

/* {"1": 0.5, "4": 0.9}: for 1, its doubles, and the number of rollouts a task. */
static json_t *pass_json(const struct batch_plan *p) {
    json_t *out = json_object();
    for (size_t k = 1;; k = 2 * k < p->per_task ? 2 * k : p->per_task) {
        char name[24];
        double mean = 0;
        if (batch_mean_pass_at(p, k, &mean) > 0) {
            (void)snprintf(name, sizeof name, "%zu", k);
            if (json_object_set_new(out, name, json_real(mean)) < 0) {
                json_decref(out);
                return NULL;
            }
        }
        if (k == p->per_task) {
            return out;
        }
    }
}

static json_t *totals_json(const struct batch_plan *p, double wall_s) {
    struct batch_totals t;
    batch_totals(p, &t);
    size_t own = t.ok + t.failed + t.cancelled - t.kept;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o, s:I, s:I, s:f, "
                     "s:o}",
                     "tasks", (json_int_t)(p->n / p->per_task), "rollouts", (json_int_t)p->n, "ok",
                     (json_int_t)t.ok, "failed", (json_int_t)t.failed, "cancelled",
                     (json_int_t)t.cancelled, "not_started", (json_int_t)t.waiting, "kept",
                     (json_int_t)t.kept, "again", (json_int_t)t.again, "mean_reward",
                     mean_or_null(t.reward_sum, t.rewarded), "rewarded", (json_int_t)t.rewarded,
                     "pass_at", pass_json(p), "causes", batch_causes(p), "calls",
                     (json_int_t)t.calls, "completion_tokens", (json_int_t)t.completion_tokens,
                     "wall_s", round(1000 * wall_s) / 1000, "rollouts_per_min",
                     wall_s > 0 ? json_real(round(600 * (double)own / wall_s) / 10) : json_null());
}

static json_t *group_json(const struct batch_plan *p, size_t t) {
    const struct batch_item *first = &p->items[t * p->per_task];
    struct group g = group_of(p, t);
    return json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:o}", "group", first->group, "task_id",
                     json_text(sv_from(first->task->id)), "rollouts", (json_int_t)p->per_task, "ok",
                     (json_int_t)g.ok, "rewarded", (json_int_t)g.rewarded, "passed",
                     (json_int_t)g.passed, "mean_reward", mean_or_null(g.reward_sum, g.rewarded));
}

static json_t *item_json(const struct batch_item *item) {
    const char *status = item->state == BATCH_ENDED ? item->status : "not_started";
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:b, s:f, s:I, s:I, s:o}", "rollout",
                     item->rollout, "group", item->group, "status", status, "cause",
                     text_or_null(item->cause), "error", text_or_null(item->error), "reward",
                     item->has_reward ? json_real(item->reward) : json_null(), "attempt",
                     (json_int_t)item->attempt, "kept", item->kept, "wall_s", item->wall_s, "calls",
                     (json_int_t)item->calls, "completion_tokens",
                     (json_int_t)item->completion_tokens, "dir", text_or_null(item->dir));
}

json_t *batch_to_json(const struct batch_plan *p, const char *run, const char *dir, double wall_s) {
    json_t *groups = json_array();
    json_t *rollouts = json_array();
    int r = groups && rollouts ? 0 : -1;
    for (size_t t = 0; t < p->n / p->per_task && r == 0; t++) {
        r = json_array_append_new(groups, group_json(p, t));
    }
    for (size_t i = 0; i < p->n && r == 0; i++) {
        r = json_array_append_new(rollouts, item_json(&p->items[i]));
    }
    if (r < 0) {
        json_decref(groups);
        json_decref(rollouts);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "run", run, "dir", json_text(sv_from(dir)),
                     "totals", totals_json(p, wall_s), "groups", groups, "rollouts", rollouts);
}

int batch_exit_status(const struct batch_plan *p, bool cancelled) {
    struct batch_totals t;
    batch_totals(p, &t);
    if (cancelled) {
        return err_exit_status(ERR_CANCELLED);
    }
    return t.ok == p->n ? 0 : 1;
}
