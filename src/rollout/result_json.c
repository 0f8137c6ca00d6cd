/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/result_json.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#define FILE_CHARS 8000 /* Of each file, and 2000 of each log: as the reference. */
#define LOG_TAIL_CHARS 2000

static double to_ms(double seconds) {
    return round(seconds * 1000) / 1000;
}

static json_t *or_null(const char *text) {
    return text && *text ? json_text(sv_from(text)) : json_null();
}

static json_t *phases_json(const struct rollout_session *s) {
    json_t *out = json_object();
    for (int i = 0; out && i < ROLLOUT_PHASE_COUNT; i++) {
        const char *name = rollout_phase_name((enum rollout_phase)i);
        if (s->phase_seen[i] &&
            json_object_set_new(out, name, json_real(to_ms(s->phase_s[i]))) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* Text, as the reference's reader wants it: valid UTF-8 and no NUL. */
static bool is_text(struct sv v) {
    while (v.n > 0) {
        size_t n = utf8_sequence(v);
        if (n == 0 || v.p[0] == '\0') {
            return false;
        }
        v = sv_cut(v, n);
    }
    return true;
}

/* Fills {path: text} and [path]; what is no text stands in the second. */
static int add_files(const struct rollout_session *s, json_t *files, json_t *extra) {
    for (size_t i = 0; i < s->n_files; i++) {
        const struct session_file *f = &s->files[i];
        AUTO_FREE char *path = mem_printf("%s/%s", s->workdir, f->path);
        AUTO_BUF struct buf clean = {0};
        if (!path || utf8_clean(sv_from(path), &clean) < 0) {
            return ERR_NOMEM;
        }
        struct sv text = buf_sv(&f->text);
        int r = f->unreadable || !is_text(text)
                    ? json_array_append_new(extra, json_text(buf_sv(&clean)))
                    : json_object_set_new(files, buf_cstr(&clean),
                                          json_text(utf8_first(text, FILE_CHARS)));
        if (r < 0) {
            return ERR_NOMEM;
        }
    }
    return 0;
}

static json_t *tail(const struct buf *log) {
    return json_text(utf8_last(buf_sv(log), LOG_TAIL_CHARS));
}

static json_t *reward_json(const struct rollout_session *s) {
    bool graded = rollout_cause_row(s->cause)->graded != ROLLOUT_GRADED_NEVER;
    return s->has_reward && graded ? json_real(s->reward) : json_null();
}

/* The reference's RolloutResult, by its names and types. */
static json_t *reference_part(const struct rollout_session *s, const struct turns *turns) {
    AUTO_JSON json_t *files = json_object();
    AUTO_JSON json_t *extra = json_array();
    if (!files || !extra || add_files(s, files, extra) < 0) {
        return NULL;
    }
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:f, s:s, s:O, s:O, s:O, s:O, s:O, s:o, s:o, s:o}", "task_id",
        json_text(sv_from(s->task->id)), "sandbox_id", s->sandbox_id, "reward", reward_json(s),
        "agent_exit_code", s->has_exit_code ? json_integer(s->exit_code) : json_null(), "wall_s",
        to_ms((double)(clock_ms() - s->began_ms) / 1000), "mode",
        factory_captures(s->factory) ? "transparent_proxy" : "black_box", "setup_results",
        s->setup_results, "verify_results", s->verify_results, "proxy_turns", turns->list, "files",
        files, "files_extra", extra, "agent_log_tail", tail(&s->agent_log), "proxy_log_tail",
        tail(&turns->log), "error", or_null(s->error));
}

static json_t *own_part(const struct rollout_session *s, const struct turns *turns) {
    const struct rollout_factory *f = s->factory;
    const struct rollout_cause_row *row = rollout_cause_row(s->cause);
    const char *level = factory_captures(f) ? turns_level(turns) : "none";
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:O, s:s, s:s, s:s, s:I, s:s, s:s, s:o, s:o, s:f, s:f, "
        "s:I, s:I}",
        "schema", RESULT_SCHEMA, "status", row->status, "cause", or_null(row->word), "phases",
        phases_json(s), "capture_level", or_null(level), "isolation",
        s->isolation ? json_incref(s->isolation) : json_object(), "findings", s->findings, "run",
        f->run, "rollout", s->rollout, "group", s->group, "attempt", (json_int_t)s->attempt,
        "backend", f->backend->name, "agent", f->agent->name, "agent_version",
        or_null(factory_mounts_agent(f) ? f->installed.version : s->agent_version), "model",
        json_text(sv_from(f->o.config->model)), "started", s->began_unix, "agent_ran_s",
        to_ms(s->agent_ran_s), "calls", (json_int_t)s->stats.calls, "completion_tokens",
        (json_int_t)(factory_captures(f) ? turns->completion_tokens
                                         : (long long)s->stats.completion_tokens));
}

json_t *result_json(const struct rollout_session *s, const struct turns *turns) {
    json_t *out = reference_part(s, turns);
    AUTO_JSON json_t *own = own_part(s, turns);
    if (!out || !own || json_object_update(out, own) < 0) {
        json_decref(out);
        return NULL;
    }
    return out;
}
