/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_GATEWAY_FIXTURE_H
#define SNAFFLE_TESTS_GATEWAY_FIXTURE_H

#include <jansson.h>

#include "agent.h"
#include "engine.h"
#include "gateway/gateway.h"
#include "journal/journal.h"
#include "tests/testing.h"

/* A gateway with one session, an engine behind it, and a journal in a folder of its own. */
struct fixture {
    char dir[64];
    char journal_dir[96];
    char unix_path[96];
    struct journal *journal;
    struct engine *engine;
    struct gateway *gateway;
    struct gateway_session *session;
    uint16_t port;
};

/* As fixture_open, with a gateway of other options (their journal is the fixture's). */
void fixture_open_with(struct fixture *f, engine_fn fn, void *arg, struct gateway_options go,
                       void (*change)(struct gateway_session_options *o));

/* The session: edits and records, top_logprobs 5; `change` may alter its options (or be NULL). */
void fixture_open(struct fixture *f, engine_fn fn, void *arg,
                  void (*change)(struct gateway_session_options *o));
void fixture_open_durable(struct fixture *f, engine_fn fn, void *arg);
/* Ends the session (open calls end or are aborted), so that the journal is whole. */
void fixture_close_session(struct fixture *f);
void fixture_close(struct fixture *f);

/* One call over a new connection, whole. */
struct answer fixture_call(struct fixture *f, const char *body);

/* What the journal has of one call. */
struct recorded {
    unsigned intents, results, tails;
    json_t *intent, *result, *tail; /* Heads; NULL: none. */
    struct buf agent_body, sent_body;
    struct buf response, logprobs, tokens, ids, logps, prompt_ids, usage, raw;
};
struct recorded fixture_read(struct fixture *f, uint64_t call);
void recorded_deinit(struct recorded *r);
/* Waits until the journal has a result of the call; fails after 5 s. */
void fixture_await_result(struct fixture *f, uint64_t call);

const char *text_of(const json_t *object, const char *field); /* "" when absent. */
bool lists(const json_t *object, const char *field, const char *word);

#define assert_bytes(got_buf, want)                                                                \
    do {                                                                                           \
        const struct buf *assert_got_ = (got_buf);                                                 \
        struct sv assert_want_ = (want);                                                           \
        if (!sv_eq(buf_sv(assert_got_), assert_want_)) {                                           \
            fail_msg("want:\n%.*s\ngot:\n%s", SV_ARG(assert_want_), buf_cstr(assert_got_));        \
        }                                                                                          \
    } while (0)

#endif
