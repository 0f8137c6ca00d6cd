/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/log.h"
#include "rollout/result_json.h"
#include "rollout/session_impl.h"
#include "rollout/trace_source.h"
#include "rollout/turns.h"

/* trace.jsonl, and what the result takes from it. */
static int write_trace(struct rollout_session *s, struct turns *turns, struct err *err) {
    struct session_trace trace;
    struct trace_summary summary = {0};
    int r = session_trace(s, &trace, err);
    if (r < 0) {
        return r;
    }
    r = trace_to_dir(&trace.source, s->dir, &summary, err);
    if (r < 0) {
        return r;
    }
    s->is_traced = true;
    if (summary.open > 0) {
        session_finding(s, "open_calls", "%u calls have no result in the journal", summary.open);
    }
    if (summary.torn > 0) {
        session_finding(s, "journal_torn", "%u damaged place%s in the journal: %s", summary.torn,
                        summary.torn == 1 ? "" : "s", summary.torn_at);
    }
    return trace_read(s->dir, turns_add, turns, err);
}

/* What the turns together say. */
static void note_turns(struct rollout_session *s, const struct turns *turns) {
    size_t n = json_array_size(turns->list);
    if (n == 0 && s->agent != SESSION_AGENT_NOT_STARTED) {
        session_finding(s, "no_turns", "the agent made no call");
    }
    if (n > 0 && turns->trainable == 0) {
        session_finding(s, "nothing_trainable", "none of %zu turns", n);
    }
    if (turns->discarded > 0) {
        session_finding(s, "discarded_turns", "%u of %zu turns", turns->discarded, n);
    }
    if (s->policy_changed) {
        session_finding(s, "policy_changed",
                        "while the gateway inside the sandbox could not be told");
    }
    if (s->stats.loop_refusals > 0) {
        session_finding(s, "loop_broken", "%llu requests were refused",
                        (unsigned long long)s->stats.loop_refusals);
    }
}

static void add_turn_findings(struct rollout_session *s, const struct turns *turns) {
    const char *code;
    json_t *n;
    json_object_foreach(turns->findings, code, n) {
        session_finding(s, code, "%lld of %zu turns", (long long)json_integer_value(n),
                        json_array_size(turns->list));
    }
}

static int write_logs(struct rollout_session *s, const struct turns *turns, struct err *err) {
    struct rollout_factory *f = s->factory;
    int r = store_put(f->store, f->run, s->rollout, "agent.log", buf_sv(&s->agent_log), err);
    return r < 0 ? r
                 : store_put(f->store, f->run, s->rollout, "gateway.log", buf_sv(&turns->log), err);
}

static void write_files(struct rollout_session *s) {
    struct rollout_factory *f = s->factory;
    for (size_t i = 0; i < s->n_files; i++) {
        struct err e = {0};
        if (!s->files[i].unreadable &&
            store_put_file(f->store, f->run, s->rollout, sv_from(s->files[i].path),
                           buf_sv(&s->files[i].text), &e) < 0) {
            session_finding(s, "file_not_kept", "%s", e.msg);
        }
    }
}

static int note_unrecorded(struct rollout_session *s, struct turns *turns) {
    return buf_addf(&turns->log, "%llu calls passed unrecorded (black_box)\n",
                    (unsigned long long)s->stats.calls);
}

int session_write(struct rollout_session *s, struct err *err) {
    struct turns turns;
    int r = turns_init(&turns, err);
    if (r >= 0) {
        struct err fault = {0};
        r = factory_captures(s->factory) ? write_trace(s, &turns, &fault)
                                         : note_unrecorded(s, &turns);
        if (r < 0) {
            log_warning("%s: the trace could not be written: %s", s->name, fault.msg);
            session_note(s, ROLLOUT_CAUSE_CAPTURE_FAULT, &fault);
        }
        if (r >= 0 && factory_captures(s->factory)) {
            note_turns(s, &turns);
        }
        add_turn_findings(s, &turns);
        r = write_logs(s, &turns, err);
    }
    if (r >= 0) {
        write_files(s);
        s->result = result_json(s, &turns);
        r = s->result
                ? store_put_result(s->factory->store, s->factory->run, s->rollout, s->result, err)
                : err_set(err, ERR_NOMEM, "out of memory");
    }
    turns_deinit(&turns);
    return r;
}
