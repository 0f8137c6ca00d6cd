/* SPDX-License-Identifier: BSD-3-Clause */
/* The intent: what is about to go out stands in the journal first. */
#include "base/json.h"
#include "gateway/call.h"
#include "gateway/text.h"

static void on_written(void *arg) {
    struct call *c = arg;
    c->journal_pending = false;
    if (c->journal_code < 0) {
        call_refuse_unrecorded(c);
    } else if (c->is_ending) {
        call_advance(c); /* The agent left in the meantime. */
    } else {
        call_ask(c);
    }
}

/* On the journal's thread. */
static void journal_done(void *arg, int code) {
    struct call *c = arg;
    c->journal_code = code;
    c->wake = (struct loop_task){.fn = on_written, .arg = c};
    loop_post_task(c->worker->loop, &c->wake);
}

static int put_field(const struct call *c, struct buf *head, const char *name, struct sv header) {
    struct sv value = http1_get(exchange_head(c->x), header);
    if (value.n == 0) {
        return 0;
    }
    int rc = buf_addf(head, ",\"%s\":", name);
    return rc < 0 ? rc : json_quote(value, head);
}

static bool changes_sampling(const struct rewrite *w) {
    size_t i = 0;
    while (i < w->n_edits && !request_is_sampling(sv_from(w->edits[i].field))) {
        i++;
    }
    return i < w->n_edits;
}

/* The request is sent as it stands in w->text: its own fields are what was sent. */
static int put_sampling(const struct call *c, struct buf *head) {
    AUTO_BUF struct buf asked = {0};
    struct request sent;
    int rc = request_put_sampling(&c->request, &asked);
    rc = rc < 0 ? rc : buf_addf(head, ",\"sampling\":{\"asked\":%s,\"sent\":", buf_cstr(&asked));
    if (rc < 0 || !changes_sampling(&c->rewrite)) {
        return rc < 0 ? rc : buf_addf(head, "%s}", buf_cstr(&asked));
    }
    rc = request_parse(&sent, buf_sv(&c->rewrite.text), NULL);
    rc = rc < 0 ? rc : request_put_sampling(&sent, head);
    return rc < 0 ? rc : buf_addc(head, '}');
}

static int put_head(const struct call *c, struct buf *head) {
    const struct http1_head *h = exchange_head(c->x);
    int rc = buf_adds(head, "{\"method\":");
    rc = rc < 0 ? rc : json_quote(h->method, head);
    rc = rc < 0 ? rc : buf_adds(head, ",\"path\":\"/v1/chat/completions\"");
    rc = rc < 0 ? rc
                : buf_addf(head, ",\"dialect\":\"openai_chat\",\"stream\":%s,\"level\":\"%s\"",
                           request_is_stream(&c->request) ? "true" : "false",
                           level_name(c->edits ? c->rewrite.rung->level : LEVEL_TEXT));
    if (rc == 0 && c->rewrite.model.n > 0) {
        rc = buf_adds(head, ",\"model\":");
        rc = rc < 0 ? rc : text_copy_finite(c->rewrite.model, head);
    }
    if (rc == 0 && c->resends > 0) {
        rc = buf_addf(head, ",\"resend\":%u,\"refused_status\":%d", c->resends, c->refused_status);
    }
    rc = rc < 0 ? rc : put_field(c, head, "agent_session", SV("x-session-id"));
    rc = rc < 0 ? rc : put_field(c, head, "agent_parent", SV("x-parent-session-id"));
    rc = rc < 0 ? rc : buf_adds(head, ",\"edits\":[");
    rc = rc < 0 ? rc : rewrite_put_edits(&c->rewrite, head);
    rc = rc < 0 ? rc : buf_addc(head, ']');
    rc = rc < 0 ? rc : put_sampling(c, head);
    return rc < 0 ? rc : buf_addc(head, '}');
}

void call_write_intent(struct call *c) {
    AUTO_BUF struct buf head = {0};
    struct err e = {0};
    int rc = 0;
    struct journal_record r = {
        .type = JOURNAL_INTENT,
        .session = sv_from(c->session->name),
        .call = c->number,
        .parts = {{SV("agent_body"), c->agent_text}},
        .n_parts = 1,
    };
    if (c->rewrite.n_edits > 0) {
        buf_reset(&c->splices);
        rc = rewrite_put_splices(&c->rewrite, c->agent_text, &c->splices);
        r.parts[r.n_parts++] = (struct journal_part){SV("splices"), buf_sv(&c->splices)};
    }
    rc = rc < 0 ? rc : put_head(c, &head);
    if (rc == 0) {
        r.head = buf_sv(&head);
        c->journal_pending = true;
        rc = call_append(c, &r, journal_done, &e);
    }
    if (rc < 0) {
        c->journal_pending = false;
        c->journal_code = rc;
        call_refuse_unrecorded(c);
    } else if (rc > 0) {
        c->journal_code = 0;
        on_written(c);
    }
}

void call_refuse_unrecorded(struct call *c) {
    struct err e = {0};
    err_set(&e, ERR_FULL, "the call can't be recorded (%s), so it was not sent on",
            err_name(c->journal_code));
    session_note_capture_fault(c->session);
    c->journal_failed = true;
    c->written = WRITTEN_WHOLE; /* Nothing can be. */
    call_fail(c, END_ERROR, &e);
}
