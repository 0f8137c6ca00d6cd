/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a call: the result into the journal first, then what was held to the agent. */
#include "base/clock.h"
#include "base/json.h"
#include "gateway/call.h"

/* Of a record that the loop's thread writes while other calls are open: some 20 us. */
#define APPEND_SMALL_MAX (64u * 1024)

/* No end reaches the agent that the journal does not have: it must take its answer for broken. */
static void lose(struct call *c, int code) {
    upstream_cancel(c->up);
    c->up = NULL;
    c->journal_pending = false;
    c->journal_code = code;
    c->is_lost = true;
    c->is_stored = false;
    c->is_ending = true;
    c->upstream_over = true;
    session_note_capture_fault(c->session);
}

static void on_written(void *arg) {
    struct call *c = arg;
    c->journal_pending = false;
    if (c->journal_code < 0) {
        lose(c, c->journal_code);
    } else {
        c->is_stored = true;
    }
    call_advance(c);
}

/* On the journal's thread. */
static void journal_done(void *arg, int code) {
    struct call *c = arg;
    c->journal_code = code;
    c->wake = (struct loop_task){.fn = on_written, .arg = c};
    loop_post_task(c->worker->loop, &c->wake);
}

static const char *engine_of(const struct call *c) {
    const struct profile *p = c->plan.profile;
    enum engine e = p && p->engine ? p->engine : c->capture.engine;
    return e ? profile_of(e)->name : NULL;
}

static int agent_status(const struct call *c) {
    if (c->end == END_ERROR || (c->end == END_UPSTREAM_ABORT && !c->answer_started)) {
        return err_http_status(c->failure.code);
    }
    return c->answer_started || c->end == END_COMPLETE ? c->status : 0;
}

static void get_facts(const struct call *c, bool tail_open, struct record_facts *f) {
    *f = (struct record_facts){
        .status = agent_status(c),
        .end = c->end == END_COMPLETE && c->status >= 400 ? END_ERROR : c->end,
        .latency_s = (double)(clock_us() - c->asked_us) / 1e6,
        .ttft_s = c->first_us ? (double)(c->first_us - c->asked_us) / 1e6 : -1,
        .engine = engine_of(c),
        .tail_open = tail_open,
        .encoded = c->is_unreadable,
        .neutralised = c->rewrite.ours & ASK_NEUTRAL,
        .wanted = c->edits ? c->rewrite.wanted : 0,
        .policy_version = buf_sv(&c->use.target->policy_version),
        .policy_changed = session_policy_changed(c->session, &c->use),
        .answer_too_big = c->answer_too_big,
    };
    if (c->status >= 400) {
        f->upstream_status = c->status;
        f->upstream_error = buf_sv(&c->answer);
    } else if (c->failure.code < 0) {
        f->upstream_error = sv_from(c->failure.msg);
    } else {
        f->upstream_error = buf_sv(&c->capture.error); /* Said within the stream. */
    }
}

/* A whole answer's text for the record: without log-probabilities and ids, as the record has them
 * apart. */
static int put_answer(struct call *c, struct buf *out) {
    const struct restore_plan all = {.profile = c->plan.profile,
                                     .ours = ASK_ANY_LOGPROBS | ASK_ANY_IDS};
    if (c->mode == MODE_STREAM || c->capture.n_choices == 0) {
        return 0;
    }
    return restore_chunk(&all, &c->chunk, buf_sv(&c->answer), &c->splice, out);
}

static int build(struct call *c, bool tail_open) {
    AUTO_BUF struct buf answer = {0};
    struct record_facts facts;
    get_facts(c, tail_open, &facts);
    int rc = put_answer(c, &answer);
    return rc < 0 ? rc : record_build(&c->rec, &c->capture, &facts, buf_sv(&answer));
}

static bool is_small(const struct journal_record *r) {
    size_t n = r->head.n;
    for (unsigned i = 0; i < r->n_parts; i++) {
        n += r->parts[i].bytes.n;
    }
    return n <= APPEND_SMALL_MAX;
}

int call_append(struct call *c, const struct journal_record *r, journal_done_fn done,
                struct err *err) {
    struct gateway *g = c->worker->gateway;
    /* Waking the journal's thread and being woken by it takes longer than a small write. Great ones
     * are its own, where there are other calls to go on with. */
    return g->calls_open == 1 || is_small(r) ? journal_append_at_once(g->journal, r, done, c, err)
                                             : journal_append_kept(g->journal, r, done, c, err);
}

static int append(struct call *c, enum journal_type type, struct err *err) {
    struct journal_record r = {
        .type = type,
        .session = sv_from(c->session->name),
        .call = c->number,
        .head = buf_sv(&c->rec.head),
        .n_parts = c->rec.n_parts,
    };
    for (unsigned i = 0; i < r.n_parts; i++) {
        r.parts[i] = c->rec.parts[i];
    }
    if (c->worker->gateway->keep_raw && c->raw.len > 0) {
        r.parts[r.n_parts++] = (struct journal_part){SV("raw_answer"), buf_sv(&c->raw)};
    }
    /* Of a whole record nothing is changed any more; an open one's lists still grow. */
    return type == JOURNAL_RESULT && c->written == WRITTEN_OPEN
               ? journal_append(c->worker->gateway->journal, &r, journal_done, c, err)
               : call_append(c, &r, journal_done, err);
}

/* True when the record has to be waited for; false when it counts, or the call is lost. */
static bool write_result(struct call *c, bool tail_open) {
    struct err e = {0};
    enum journal_type type = c->written == WRITTEN_OPEN ? JOURNAL_TAIL : JOURNAL_RESULT;
    c->written = tail_open ? WRITTEN_OPEN : WRITTEN_WHOLE;
    int rc = build(c, tail_open);
    if (rc == 0) {
        c->journal_pending = true;
        rc = append(c, type, &e);
    }
    if (rc < 0) {
        lose(c, rc);
    } else if (rc > 0) {
        c->journal_pending = false;
        c->is_stored = true;
    }
    return rc == 0;
}

/* Engines without a list of models, or none at all: the agent gets the one model that is known. */
static bool lacks_models(const struct call *c) {
    return c->is_models && c->end != END_CLIENT_ABORT &&
           (c->end != END_COMPLETE || c->status == 404 || c->status == 405 || c->status == 501);
}

static void reply_models(struct call *c) {
    AUTO_BUF struct buf body = {0};
    const char *model = c->use.target->model_override;
    struct exchange *x = c->x;
    int rc = buf_adds(&body, "{\"object\":\"list\",\"data\":[");
    if (rc == 0 && model) {
        rc = buf_adds(&body, "{\"object\":\"model\",\"owned_by\":\"snaffle\",\"id\":");
        rc = rc < 0 ? rc : json_quote(sv_from(model), &body);
        rc = rc < 0 ? rc : buf_addc(&body, '}');
    }
    rc = rc < 0 ? rc : buf_adds(&body, "]}");
    c->x = NULL;
    if (x && rc == 0) {
        exchange_reply(x, 200, SV("application/json"), buf_sv(&body));
    } else if (x) {
        exchange_cut(x, EXCHANGE_CUT_RESET);
    }
}

/* All of the answer is here, and the agent gets its proper end next. */
static bool is_at_end(const struct call *c) {
    return c->is_ending && c->upstream_over && c->end == END_COMPLETE;
}

/* Within a promised length it could pass for the rest. */
static bool takes_error_event(const struct call *c) {
    return c->mode == MODE_STREAM && (c->agent_chunked || c->agent_until_close);
}

static void send_held(struct call *c) {
    c->is_holding = false;
    if (c->mode == MODE_WHOLE || c->mode == MODE_PROBE) {
        if (c->is_ending && c->end == END_COMPLETE && !lacks_models(c)) {
            reply_start(c, /* has_length= */ true, c->held.len);
            reply_send(c, buf_sv(&c->held));
            buf_reset(&c->held);
        }
        return;
    }
    if (c->mode == MODE_PASS && (!c->is_ending || c->end != END_COMPLETE)) {
        return; /* The last byte is the proof that all came. */
    }
    if (c->held.len > 0) {
        reply_take_room(c);
        if (buf_add_sv(&c->out, buf_sv(&c->held)) < 0) {
            reply_flush(c);
            reply_send(c, buf_sv(&c->held));
        }
        buf_reset(&c->held);
    }
    if (!is_at_end(c)) { /* Else it goes with the end. */
        reply_flush(c);
    }
    if (c->up && c->x && !exchange_is_full(c->x)) {
        upstream_resume(c->up);
    }
}

/* An error in place of the answer or of its rest. What an agent that left would have got is lost
 * on it. */
static void end_lost(struct call *c) {
    struct err e = {0};
    err_set(&e, ERR_FULL, "the answer can't be recorded (%s), so its end was not passed on",
            err_name(c->journal_code));
    if (c->end == END_CLIENT_ABORT) {
        reply_cut(c);
    } else if (reply_is_unsent(c)) {
        reply_error(c, &e);
    } else {
        reply_flush(c);
        if (takes_error_event(c)) {
            call_stream_error(c, "capture_fault", e.msg);
        }
        reply_cut(c);
    }
}

static void end_agent(struct call *c) {
    if (c->is_lost) {
        end_lost(c);
        return;
    }
    if (!is_at_end(c)) {
        reply_flush(c);
    }
    if (lacks_models(c)) {
        reply_models(c);
        return;
    }
    switch (c->end) {
    case END_COMPLETE:
        reply_end(c);
        break;
    case END_CLIENT_ABORT:
        reply_cut(c);
        break;
    default:
        if (!c->answer_started) {
            reply_error(c, &c->failure);
            break;
        }
        if (takes_error_event(c)) {
            call_stream_error(c, "upstream_abort", c->failure.msg);
        }
        reply_cut(c);
    }
}

static void count_time(struct gateway_times *t, int64_t us) {
    unsigned i = 0;
    while (i < GATEWAY_TIMES - 1 && us > gateway_time_bounds_us[i]) {
        i++;
    }
    t->counts[i]++;
    t->sum_us += us > 0 ? (uint64_t)us : 0;
}

static void count_how(const struct call *c, struct gateway_stats *all) {
    if (c->is_lost && c->end == END_COMPLETE) {
        all->ended_error++;
        return;
    }
    switch (c->end) {
    case END_COMPLETE:
        *(c->status >= 400 ? &all->ended_error : &all->ended_complete) += 1;
        break;
    case END_CLIENT_ABORT:
        all->client_aborts++;
        break;
    case END_UPSTREAM_ABORT:
        all->upstream_aborts++;
        break;
    default:
        all->ended_error++;
    }
    if (c->sent_us && c->end == END_COMPLETE) {
        int64_t done_us = c->done_us ? clock_us() - c->done_us : 0;
        count_time(&all->added, c->sent_us - c->asked_us + done_us);
    }
}

/* Every call that began is counted once where it ended up. */
static void count_end(struct call *c) {
    struct gateway_stats *all = &c->worker->stats;
    all->completion_tokens += capture_completion_tokens(&c->capture);
    all->prompt_tokens += capture_prompt_tokens(&c->capture);
    count_how(c, all);
    if (c->is_stored) {
        all->calls_stored++;
    } else if (c->record) {
        all->calls_lost++;
    } else {
        all->calls_passed++;
    }
}

/* Agents take such an answer for a broken one, and ask again. */
static bool ended_without_reason(const struct call *c) {
    return c->mode == MODE_STREAM && c->capture.n_finished == 0;
}

void call_note_body(struct call *c, bool failed) {
    if (!c->body_noted) {
        c->body_noted = true;
        session_note_body(c->session, &c->body_key, failed);
    }
}

/* Before the agent sees the end: who waits for that reads the session's counts after it. */
static void tell_session(struct call *c) {
    struct gateway_session *s = c->session;
    bool is_down = c->status >= 502 && c->status <= 504;
    bool engine_failed = c->end == END_UPSTREAM_ABORT || c->end == END_ERROR || is_down;
    if (c->is_models) {
        return;
    }
    session_note_end(s, capture_completion_tokens(&c->capture));
    /* Who leaves tells nothing of the engine, unless it had failed by then. */
    bool is_told = c->end != END_CLIENT_ABORT || (is_down && c->answer_started);
    if (is_told && !c->journal_failed) {
        session_note_answer(s, !engine_failed);
        call_note_body(c, engine_failed || c->status >= 400 || ended_without_reason(c));
    }
}

static void conclude(struct call *c) {
    upstream_cancel(c->up);
    c->up = NULL;
    if (!c->is_models) {
        call_learn_from_answer(c);
        count_end(c);
    }
    const struct gateway *g = c->worker->gateway;
    if (c->is_stored && g->on_call_end) {
        g->on_call_end(g->hooks_arg);
    }
    end_agent(c);
    call_release(c);
}

static void on_grace_over(struct exchange *x, void *arg) {
    struct call *c = arg;
    (void)x;
    c->upstream_over = true;
    call_advance(c);
}

void call_advance(struct call *c) {
    if (c->is_ending && c->upstream_over && !c->done_us) {
        c->done_us = clock_us();
    }
    if (c->journal_pending) {
        return;
    }
    bool is_due =
        c->is_ending ? c->written != WRITTEN_WHOLE : c->hold_over && c->written == WRITTEN_NONE;
    if (c->record && is_due && !c->is_lost && write_result(c, /* tail_open= */ !c->is_ending)) {
        return;
    }
    bool is_over = c->is_ending && c->upstream_over;
    if (is_over) {
        tell_session(c);
    }
    if ((c->is_holding || c->is_ending) && !c->is_lost) {
        send_held(c);
    }
    if (is_over) {
        conclude(c);
    } else if (c->is_ending && !c->awaits_end) {
        c->awaits_end = true;
        if (!c->x || exchange_after(c->x, CALL_DONE_GRACE_MS, on_grace_over, c) < 0) {
            on_grace_over(c->x, c);
        }
    }
}

void call_fail(struct call *c, enum call_end end, const struct err *err) {
    c->upstream_over = true;
    if (!c->is_ending) {
        c->failure = *err;
        c->end = end;
        c->is_ending = true;
    }
    call_advance(c);
}
