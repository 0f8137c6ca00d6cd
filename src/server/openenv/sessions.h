/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_OPENENV_SESSIONS_H
#define SNAFFLE_SERVER_OPENENV_SESSIONS_H

#include "net/loop.h"
#include "server/openenv/environment.h"

/*
 * The sessions that clients hold, each with an environment of its own, at most as many as there are
 * places. One of a WebSocket ends with it. One that was made over HTTP may be forgotten by its
 * client: when there is no place left, the one unused longest goes, if that is long. Loop thread
 * only.
 */
struct sessions;

#define SESSIONS_MAX_DEFAULT 4 /* MAX_CONCURRENT_ENVS, as the reference has it. */
/* After its WebSocket went, until a session of both goes too: its client ends it at once, unless
 * the client died. */
#define SESSIONS_ALONE_MS 10000
/* Between two calls of a trainer lies at most a training step, which is minutes. */
#define SESSIONS_UNUSED_MS 3600000

struct session {
    struct session *prev, *next;
    char id[UUID_TEXT_MAX];
    struct environment environment;
    unsigned users; /* Its holder and what is under way. */
    unsigned calls; /* Under way. */
    bool over_http;
    bool is_attached; /* A WebSocket has joined one that was made over HTTP. */
    bool ends_with_it;
    bool is_closed;
    struct sessions *owner;
    struct timer *alone;
    int64_t used_ms;  /* The loop's clock. */
    int64_t asked_ms; /* When its client was last heard of. */
    int64_t detached_ms;
};

int sessions_new(struct loop *l, unsigned max, struct sessions **out, struct err *err) CHECK_RESULT;
void sessions_free(struct sessions *s); /* Every session was released. Accepts NULL. */

unsigned sessions_active(const struct sessions *s);
unsigned sessions_max(const struct sessions *s);

/* Takes a place. ERR_QUOTA: there is none; the message is the reference's. */
int sessions_open(struct sessions *s, bool over_http, struct session **out,
                  struct err *err) CHECK_RESULT;
/* One that takes no place and that nobody finds; its holder releases it. */
int session_make(struct session **out, struct err *err) CHECK_RESULT;
struct session *sessions_find(const struct sessions *s, struct sv id); /* NULL: none. */
/* Its place is free and nobody finds it; memory goes with the last user. */
void sessions_close(struct sessions *s, struct session *one);
void sessions_close_all(struct sessions *s);

/* A WebSocket joins a session that was made over HTTP, and leaves it. */
void session_attach(struct session *one);
void session_detach(struct session *one);

void session_asked(struct sessions *s, struct session *one); /* Its client sent a message. */
void session_touch(struct sessions *s, struct session *one);
void session_use(struct session *one);
void session_release(struct session *one);

#endif
