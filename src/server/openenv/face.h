/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_OPENENV_FACE_H
#define SNAFFLE_SERVER_OPENENV_FACE_H

#include "server/openenv/openenv.h"
#include "server/openenv/step.h"
#include "server/openenv/watchers.h"

/* What the face's files share. */

struct link;
struct http_step;

/* A call of JSON-RPC that moves a session's environment. */
struct rpc_use {
    struct rpc_use *next;
    const struct rpc_request *request;
    struct session *session;
};

/* Where JSON-RPC comes in: over HTTP (own NULL), or on a WebSocket with its own session. */
struct rpc_door {
    struct openenv *openenv;
    struct session *own;
    struct rpc_use *uses;
};

void door_forget(struct rpc_door *d); /* No leave comes any more. */

struct openenv {
    struct openenv_options options;
    struct sessions *sessions;
    struct rpc_door http_door;
    struct link *links;           /* WebSockets. */
    unsigned n_refused;           /* Of them: told that there is no session, and not ended yet. */
    struct http_step *http_steps; /* Under way. */
    struct watchers watchers;     /* Of the web page's episode. */
    struct session *web;          /* The one environment of the web page; made when needed. */
};

/* link.c: what serves a WebSocket. `is_bare`: JSON-RPC as it is, else OpenEnv's messages. Takes the
 * exchange. */
void link_accept(struct openenv *e, struct exchange *x, bool is_bare);
void link_end_all(struct openenv *e);

/* message.c: one message of /ws is answered by link_reply, now or later. */
struct message_context {
    struct openenv *openenv;
    const char *client; /* Who is at the other end. */
    struct session *session;
    struct rpc *rpc;
    void (*on_rpc)(void *arg, struct sv answer);
    void (*on_step)(void *arg, struct sv payload);
    void *arg;
};

enum message_fate {
    MESSAGE_ANSWERED, /* The answer stands in `out`. */
    MESSAGE_WAITS,    /* One of the callbacks brings it, or brought it. */
    MESSAGE_CLOSES,   /* No answer: the client wants to end. */
    MESSAGE_ENDS,     /* The answer stands in `out`, and then it is over. */
};
enum message_fate message_take(const struct message_context *c, struct sv text, struct step **step,
                               struct buf *out);
/* Each appends a whole message of the server. */
int message_put(struct buf *out, const char *type, struct sv data) CHECK_RESULT;
/* Takes `more`, the fields besides; NULL: none. */
int message_put_error(struct buf *out, const char *code, const char *text,
                      json_t *more) CHECK_RESULT;

/* http.c */
void http_json(struct exchange *x, int status, json_t *value); /* Takes it; NULL: no memory. */
void http_detail(struct exchange *x, int status, const char *text);
void http_faults(struct exchange *x, struct faults *f); /* 422; takes the list. */
/* The body as an object; none is an empty one if `optional`. false: it was answered. */
bool http_body(struct exchange *x, bool optional, json_t **out);
void http_end_all(struct openenv *e);
void http_reset(struct openenv *e, struct exchange *x, struct session *s);
void http_step(struct openenv *e, struct exchange *x, struct session *s);
void http_state(struct openenv *e, struct exchange *x, struct session *s);

/* schema.c. The caller owns them; NULL: no memory. */
json_t *schema_all(void);
json_t *schema_metadata(const char *name);
json_t *schema_openapi(const struct openenv *e);

/* page.c */
void page_show(const struct openenv *e, struct exchange *x);

/* tasks.c: false: no path of the task API. */
bool tasks_request(const struct openenv *e, struct exchange *x, struct sv path);

#endif
