/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/session_impl.h"
#include "rollout/trace_source.h"

int session_trace(struct rollout_session *s, struct session_trace *out, struct err *err) {
    const struct rollout_factory *f = s->factory;
    out->judge = (struct judge){
        .agent = f->agent,
        .logprobs_processed = f->o.logprobs_processed,
    };
    out->source = (struct trace_source){
        .journal_dir = f->journal_dir,
        .session = s->name,
        .journal = f->journal,
        .judge = judge_call,
        .arg = &out->judge,
    };
    return journal_flush(f->journal, err);
}

int rollout_session_fetch_trace(struct rollout_session *s, struct buf *out, struct err *err) {
    if (!factory_captures(s->factory)) {
        return 0;
    }
    struct session_trace trace;
    struct trace_summary summary;
    int r = session_trace(s, &trace, err);
    return r < 0 ? r : trace_to_buf(&trace.source, out, &summary, err);
}

int rollout_session_fetch_log(struct rollout_session *s, struct buf *out, struct err *err) {
    pthread_rwlock_rdlock(&s->alive);
    int r = 0;
    if (s->sandbox) {
        r = session_read_log(s, out, err);
    } else if (buf_add_sv(out, buf_sv(&s->agent_log)) < 0) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    pthread_rwlock_unlock(&s->alive);
    return r;
}
