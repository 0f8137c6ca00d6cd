/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_CALL_H
#define SNAFFLE_GATEWAY_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "gateway/capture.h"
#include "gateway/chunk.h"
#include "gateway/decode.h"
#include "gateway/record.h"
#include "gateway/redact.h"
#include "gateway/request.h"
#include "gateway/restore.h"
#include "gateway/rewrite.h"
#include "gateway/session.h"
#include "gateway/upstream.h"
#include "gateway/worker.h"
#include "net/server.h"
#include "net/sse.h"

/*
 * One model call on its way: agent, intent, engine, answer, result. Loop thread only.
 *
 *     call_begin -> intent in the journal -> call_ask -> head -> events or body
 *         -> call_advance: result in the journal, then what was held goes to the agent, then the
 * end
 */

/* How long events are held from the one that ends the last open choice, in wait of the usage and
 * late ids that engines send behind it. */
#define CALL_HOLD_MS 1000
/* How long the engine's own end of the body is awaited behind [DONE]; then the agent gets its end
 * without it, since some engines leave the connection open. */
#define CALL_DONE_GRACE_MS 50
/* A refusal's text is read whole before the agent sees anything; refusals are short. */
#define CALL_REFUSAL_MAX (256u * 1024)
/* The greatest whole answer that is read and put right before it is passed on. */
#define CALL_ANSWER_MAX (64u * 1024 * 1024)

enum call_mode {
    MODE_NONE,   /* No head yet. */
    MODE_STREAM, /* Server-sent events. */
    MODE_PASS,   /* Bytes go on as they come, but the last. */
    MODE_WHOLE,  /* Collected, restored, then sent. */
    MODE_PROBE,  /* Collected: it may be a refusal of what we asked for. */
};

enum call_written { WRITTEN_NONE, WRITTEN_OPEN, WRITTEN_WHOLE };

struct call {
    struct worker *worker;
    struct gateway_session *session;
    struct session_use use;   /* What it goes to, since its beginning. */
    struct call *prev, *next; /* In worker->calls; next also in the spare list. */
    struct exchange *x;       /* NULL: the agent's side is ended. */
    struct upstream *up;      /* NULL: not asked yet, or over. */
    uint64_t number;
    bool is_models; /* GET /v1/models: passed on, not recorded. */
    bool record;
    bool edits;
    bool has_tools;

    /* The request. */
    struct sv agent_body; /* As it came. */
    struct buf plain;     /* Decoded, when it came encoded. */
    struct sv agent_text; /* What it says: one of the two. */
    struct request request;
    struct rewrite rewrite;
    struct buf splices;            /* What the intent says of it. */
    struct buf model;              /* What rewrite.model says, once the request was dropped. */
    struct buf head;               /* Of the request to the engine. */
    const struct profile *profile; /* How the engine is asked. */
    unsigned withdrawn;            /* enum ask: what it is not asked for. */
    enum capture_level level;      /* At most. */
    unsigned resends;
    int refused_status;          /* What the engine said to what was asked before. */
    struct breaker_key body_key; /* Of what it says; zero: nobody looks for loops. */
    bool body_noted;             /* How it ended was told to the session. */
    unsigned n_choices;          /* That were asked for. */

    /* The answer. */
    enum call_mode mode;
    int status;
    struct buf fields; /* End-to-end field lines of the engine's head. */
    struct buf reason;
    bool has_length;
    struct decode *decode; /* The engine encoded its answer. */
    bool copies;           /* Encoded bytes go on as they are; only a copy is decoded. */
    bool is_unreadable;    /* An encoded answer that can't be decoded. */
    bool is_json;          /* So its head says. */
    bool until_close;      /* The engine's framing has no end of its own. */
    uint64_t length;
    struct restore_plan plan;
    bool restores;
    struct sse sse;
    struct chunk chunk;
    struct splice splice;
    struct capture capture;
    struct buf reply_head; /* Of the answer to the agent, until it is sent. */
    struct buf out;        /* To be sent at the next flush. */
    struct buf held;       /* Kept back until the result is in the journal. */
    struct buf answer;     /* A whole answer, or a failed one's text. */
    struct buf raw;        /* The engine's payload as it came (but for the key), if kept. */
    struct redact redact;
    bool answer_started; /* The agent has the head. */
    bool agent_chunked;
    bool agent_until_close;
    bool answer_too_big;
    bool is_holding;
    bool saw_done;
    bool hold_over; /* The time limit passed. */

    /* The end. */
    enum call_end end;
    bool is_ending;     /* All is known that will be: the final record is due. */
    bool upstream_over; /* The engine's side is at its end. */
    bool awaits_end;    /* All is written; only the engine's end of the body is missing. */
    bool journal_pending;
    bool journal_failed;   /* The call was refused because it could not be recorded. */
    bool is_stored;        /* Its result is in the journal. */
    bool is_lost;          /* The journal refused it: the agent must not get its end. */
    int journal_code;      /* What the journal said last. */
    struct loop_task wake; /* From the journal's thread to the loop's. */
    enum call_written written;
    struct err failure; /* Why there is no (whole) answer. */
    struct record rec;
    int64_t asked_us; /* The request's last byte came. */
    int64_t sent_us;  /* It went out to the engine; 0: not yet. */
    int64_t first_us; /* The answer's first event; 0: none. */
    int64_t done_us;  /* All was known of the answer; 0: not yet. */
};

/* Takes the exchange. */
void call_begin(struct worker *w, struct gateway_session *s, struct exchange *x);
void call_begin_models(struct worker *w, struct gateway_session *s, struct exchange *x);
/* The agent left, or the session ends: what came is recorded, and the engine is let go. */
void call_abort(struct call *c);
void call_free_spare(struct worker *w);

/* call.c: rewrites the request at the call's level, records the intent, and asks. */
void call_go(struct call *c);
void call_release(struct call *c);

/* call_ask.c: builds the request's head and sends it. */
void call_ask(struct call *c);
extern const struct upstream_events call_upstream_events;

/* call_negotiate.c */
void call_plan_ask(struct call *c); /* At its beginning. */
void call_learn_from_head(struct call *c, const struct http1_head *head);
void call_learn_from_success(struct call *c);
void call_learn_from_answer(struct call *c); /* At its end. */
bool call_may_be_refused(const struct call *c);
/* A refusal that names what only we asked for: to be asked again without it. */
bool call_asks_again(struct call *c);

/* Takes what the engine's answer says, decoded, and covers the key in it. */
int call_take_plain(struct call *c, struct sv plain, struct err *err) CHECK_RESULT;

/* call_intent.c: then call_ask, or the agent gets an error. */
void call_write_intent(struct call *c);
void call_refuse_unrecorded(struct call *c);

/* call_decode.c: an answer that came encoded though it was asked for plain. */
void call_decode_begin(struct call *c, const struct http1_head *head);
int call_decode_body(struct call *c, struct sv payload, struct err *err) CHECK_RESULT;
int call_decode_end(struct call *c, struct err *err) CHECK_RESULT;

/* call_stream.c */
int call_stream_body(struct call *c, struct sv payload, struct err *err) CHECK_RESULT;
int call_stream_pass(struct call *c, struct sv payload) CHECK_RESULT; /* Unread. */
int call_stream_end(struct call *c) CHECK_RESULT; /* What is left in the splitter. */
void call_stream_error(struct call *c, const char *code, const char *why);

/* call_lines.c: appends the event with these edits of its joined data. */
int call_edit_lines(const struct sse_event *event, const struct splice *edits,
                    struct buf *out) CHECK_RESULT;

/* call_whole.c */
int call_whole_body(struct call *c, struct sv payload, struct err *err) CHECK_RESULT;
int call_whole_pass(struct call *c, struct sv payload) CHECK_RESULT; /* Unread, to the agent. */
int call_whole_end(struct call *c) CHECK_RESULT;

/* call_reply.c: the agent's side. */
void reply_start(struct call *c, bool has_length, uint64_t length);
void reply_send(struct call *c, struct sv payload);
void reply_take_room(struct call *c); /* For c->out, before it is filled. */
void reply_flush(struct call *c);     /* Sends c->out. */
void reply_end(struct call *c);
void reply_cut(struct call *c);
void reply_error(struct call *c, const struct err *err);
bool reply_is_unsent(const struct call *c); /* The agent has nothing of an answer yet. */

/* call_end.c: a record that does not change any more goes into the journal. 1: it counts already,
 * and `done` is not called. */
int call_append(struct call *c, const struct journal_record *r, journal_done_fn done,
                struct err *err) CHECK_RESULT;

/* call_end.c: tells the loop breaker, once, how the body fared. */
void call_note_body(struct call *c, bool failed);
/* Goes on with whatever can be done now; the call may be gone after. */
void call_advance(struct call *c);
void call_fail(struct call *c, enum call_end end, const struct err *err);

#endif
