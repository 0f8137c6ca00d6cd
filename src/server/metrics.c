/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/metrics.h"

#include "base/buf.h"

#define P "snaffle_serve_"

static int head(struct buf *b, const char *name, const char *kind, const char *help) {
    return buf_addf(b, "# HELP " P "%s %s\n# TYPE " P "%s %s\n", name, help, name, kind);
}

static int put(struct buf *b, const char *name, const char *kind, const char *help, double value) {
    int r = head(b, name, kind, help);
    return r < 0 ? r : buf_addf(b, P "%s %.17g\n", name, value);
}

static int put_by(struct buf *b, const char *name, const char *label, const char *word,
                  uint64_t value) {
    return buf_addf(b, P "%s{%s=\"%s\"} %llu\n", name, label, word, (unsigned long long)value);
}

static int put_ended(struct buf *b, const struct tool_stats *s) {
    int r = head(b, "rollouts_total", "counter", "Rollouts that ended, by their status.");
    r = r < 0 ? r : put_by(b, "rollouts_total", "status", "ok", s->ok);
    r = r < 0 ? r : put_by(b, "rollouts_total", "status", "failed", s->failed);
    r = r < 0 ? r : put_by(b, "rollouts_total", "status", "cancelled", s->cancelled);
    r = r < 0 ? r
              : put(b, "rollout_seconds_total", "counter", "What these took, all together.",
                    s->seconds);
    r = r < 0 ? r
              : head(b, "calls_without_rollout_total", "counter",
                     "Calls that began no rollout, by why.");
    r = r < 0 ? r : put_by(b, "calls_without_rollout_total", "why", "invalid", s->invalid);
    r = r < 0 ? r : put_by(b, "calls_without_rollout_total", "why", "refused", s->refused);
    return r < 0 ? r : put_by(b, "calls_without_rollout_total", "why", "left", s->left);
}

void metrics_answer(struct exchange *x, struct tool_box *tools, const struct openenv *openenv,
                    double started) {
    struct tool_stats s;
    unsigned max = 0;
    unsigned active = openenv_sessions(openenv, &max);
    AUTO_BUF struct buf b = {0};
    tool_box_stats(tools, &s);
    int r = put(&b, "rollouts_running", "gauge", "Rollouts that run.", s.running);
    r = r < 0 ? r : put(&b, "rollouts_waiting", "gauge", "Calls that wait for a place.", s.waiting);
    r = r < 0 ? r : put_ended(&b, &s);
    r = r < 0 ? r : put(&b, "sessions", "gauge", "Sessions open.", active);
    r = r < 0 ? r : put(&b, "sessions_max", "gauge", "Sessions that may be open.", max);
    r = r < 0 ? r : put(&b, "start_time_seconds", "gauge", "When it started, since 1970.", started);
    if (r < 0) {
        exchange_reply(x, 503, SV("text/plain"), SV("out of memory"));
    } else {
        exchange_reply(x, 200, SV("text/plain; version=0.0.4; charset=utf-8"), buf_sv(&b));
    }
}
