/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/batch_summary.h"

#include "base/buf.h"
#include "base/json.h"
#include "cli/summary.h"
#include "cli/text.h"

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

/* One line of text that is built piece by piece; `r` is what building came to. */
static int put(const char *label, struct buf *text, int r, FILE *stream, struct err *err) {
    r = r < 0 ? no_memory(err) : summary_line(label, buf_cstr(text), stream, err);
    buf_reset(text);
    return r;
}

static int add_rollouts(const struct batch_plan *p, const struct batch_totals *t, struct buf *out) {
    int r = buf_addf(out, "%zu of %zu tasks: %zu ok, %zu failed", t->rollouts, p->n / p->per_task,
                     t->ok, t->failed);
    if (r == 0 && t->cancelled > 0) {
        r = buf_addf(out, ", %zu cancelled", t->cancelled);
    }
    if (r == 0 && t->waiting > 0) {
        r = buf_addf(out, ", %zu not started", t->waiting);
    }
    if (r == 0 && t->kept > 0) {
        r = buf_addf(out, " (%zu kept from before)", t->kept);
    }
    return r;
}

static int add_causes(const struct batch_plan *p, struct buf *out) {
    AUTO_JSON json_t *causes = batch_causes(p);
    const char *name;
    json_t *n;
    int r = causes ? 0 : ERR_NOMEM;
    json_object_foreach(causes, name, n) {
        if (r == 0) {
            r = buf_addf(out, "%s%lld %s", out->len ? ", " : "", (long long)json_integer_value(n),
                         name);
        }
    }
    return r;
}

static int add_reward(const struct batch_plan *p, const struct batch_totals *t, struct buf *out) {
    double pass = 0;
    if (t->rewarded == 0) {
        return buf_adds(out, "none");
    }
    int r = buf_addf(out, "mean %.3f of %zu", t->reward_sum / (double)t->rewarded, t->rewarded);
    if (r == 0 && batch_mean_pass_at(p, 1, &pass) > 0) {
        r = buf_addf(out, ", pass@1 %.3f", pass);
    }
    if (r == 0 && p->per_task > 1 && batch_mean_pass_at(p, p->per_task, &pass) > 0) {
        r = buf_addf(out, ", pass@%zu %.3f", p->per_task, pass);
    }
    return r;
}

static int add_time(const struct batch_totals *t, double wall_s, struct buf *out) {
    char took[32];
    size_t own = t->ok + t->failed + t->cancelled - t->kept;
    text_duration(wall_s, took);
    return buf_addf(out, "%s, %.1f rollouts a minute", took,
                    wall_s > 0 ? 60 * (double)own / wall_s : 0);
}

int batch_summary_print(const struct batch_plan *p, const char *dir, double wall_s, FILE *stream,
                        struct err *err) {
    AUTO_BUF struct buf text = {0};
    struct batch_totals t;
    batch_totals(p, &t);
    int r = put("rollouts", &text, add_rollouts(p, &t, &text), stream, err);
    r = r < 0 ? r : put("reward", &text, add_reward(p, &t, &text), stream, err);
    if (r == 0) {
        int added = add_causes(p, &text);
        r = text.len > 0 || added < 0 ? put("causes", &text, added, stream, err) : 0;
    }
    if (r == 0) {
        char tokens[16];
        text_amount((double)t.completion_tokens, tokens);
        r = put("calls", &text, buf_addf(&text, "%llu, %s completion tokens", t.calls, tokens),
                stream, err);
    }
    r = r < 0 ? r : put("time", &text, add_time(&t, wall_s, &text), stream, err);
    return r < 0 ? r : summary_line("folder", dir, stream, err);
}
