/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_CAPTURE_SERVER_H
#define SNAFFLE_SERVER_CAPTURE_SERVER_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "net/server.h"
#include "server/capture/capture.h"
#include "train/judge.h"

/* What the capture server's files share. */

struct pool;
struct live;

/* A session that an admin opened. It lives until it is ended and nobody uses it. */
struct managed {
    struct managed *next;
    char *id;   /* What the admin calls it; NULL: by its token, which is not known yet. */
    char *name; /* In records. */
    json_t *metadata;
    struct gateway_session *session;
    unsigned users;
    bool is_ending;   /* Nobody finds it any more. */
    bool is_restored; /* Part of its records are another process's. */
};
void managed_free(struct managed *m); /* Accepts NULL. */

/* In records, the name of a key that an admin gave with the session. */
#define MANAGED_KEY "api_key"

struct capture {
    const struct capture_options *o;
    struct journal *journal;
    struct gateway *gateway;
    struct judge judge;
    struct pool *pool; /* Threads for what must not hold up a loop. */
    struct live *live; /* NULL: no trace is written. */
    char instance[33];
    char name[32]; /* Of the one session, in records. */
    double started;
    _Atomic(deadline_ms) end_by; /* When all is to be over; DEADLINE_NEVER: not said yet. */
    atomic_bool ready;           /* Everything is set up, and not being torn down yet. */

    pthread_mutex_t mutex; /* Guards all below. */
    pthread_cond_t unused; /* Some managed session has one user less. */
    struct managed *managed;
};

/* The answer to a request of the admin. */
struct reply {
    int status;
    const char *type; /* NULL: application/json. */
    struct buf body;
};

/* One request, as a thread of the pool sees it. */
struct request_view {
    struct sv method;
    struct sv path;
    struct sv query;
    struct sv body;
    bool is_allowed; /* The key was shown, or none is needed. */
};

/* route.c: hooks of the gateway. */
bool capture_on_request(struct exchange *x, void *capture);
size_t capture_body_max(struct exchange *x, void *capture);

/* sessions.c: answers, or an error that becomes one. `id` is a part of the path. */
int sessions_create(struct capture *c, const struct request_view *r, struct reply *out,
                    struct err *err) CHECK_RESULT;
int sessions_list(struct capture *c, struct reply *out, struct err *err) CHECK_RESULT;
int sessions_show(struct capture *c, struct sv id, struct reply *out, struct err *err) CHECK_RESULT;
int sessions_change(struct capture *c, struct sv id, const struct request_view *r,
                    struct reply *out, struct err *err) CHECK_RESULT;
/* Found and kept from being ended, or NULL. */
struct managed *sessions_use(struct capture *c, struct sv id);
void sessions_unuse(struct capture *c, struct managed *m);
unsigned sessions_count(struct capture *c);
/* Found for its end: nobody else finds it any more. NULL: there is none. */
struct managed *sessions_claim(struct capture *c, struct sv id);
/* Any that is left; waits for those that somebody else ends. */
struct managed *sessions_claim_any(struct capture *c);
void sessions_unlink(struct capture *c, const struct managed *m);
int sessions_unknown(struct err *err) CHECK_RESULT; /* The error for no session. */

/* session_end.c */
int sessions_end(struct capture *c, struct sv id, const struct request_view *r, struct reply *out,
                 struct err *err) CHECK_RESULT;
void sessions_end_all(struct capture *c, deadline_ms until);

/* restore.c: opens again what was open when its process died. */
int restore_sessions(struct capture *c, struct err *err) CHECK_RESULT;

/* traces.c */
int traces_lines(struct capture *c, struct sv id, struct reply *out, struct err *err) CHECK_RESULT;
int traces_entries(struct capture *c, struct sv id, struct reply *out,
                   struct err *err) CHECK_RESULT;

/* upstreams.c */
int upstreams_load(struct capture *c, struct err *err) CHECK_RESULT; /* As the options say. */
int upstreams_list(struct capture *c, struct reply *out, struct err *err) CHECK_RESULT;
int upstreams_replace(struct capture *c, const struct request_view *r, struct reply *out,
                      struct err *err) CHECK_RESULT;
/* "llm_url" or "llm_urls" of an object, as a NULL-ended list that borrows from it; the caller frees
 * the list. *out stays NULL where there is neither. */
int upstreams_of(const json_t *object, const char ***out, struct err *err) CHECK_RESULT;

/* health.c, metrics.c */
/* Who has not shown the key is not told where the engines are. */
int health_show(struct capture *c, bool is_allowed, struct reply *out,
                struct err *err) CHECK_RESULT;
int metrics_show(struct capture *c, struct reply *out, struct err *err) CHECK_RESULT;

/* The body as an object of these fields; no body is an empty one. */
int body_object(const struct request_view *r, const char *const *known, json_t **out,
                struct err *err) CHECK_RESULT;

/* Takes the value (NULL: no memory) as the answer. */
int reply_json(struct reply *out, int status, json_t *value, struct err *err) CHECK_RESULT;

#endif
