/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_HTTP_INTERNAL_H
#define SNAFFLE_SERVER_MCP_HTTP_INTERNAL_H

#include "server/mcp/http.h"

/* What the files behind http.h share. */

#define SESSION_ID_BYTES 16

struct mcp_session {
    struct mcp_session *next; /* The one used last comes first. */
    struct mcp_session *previous;
    char id[2 * SESSION_ID_BYTES + 1];
    struct rpc *rpc;
    int64_t used_ms;
};

/* A message on its way to its answer. */
struct mcp_post {
    struct mcp_http *http;
    struct mcp_post *next;
    struct mcp_post *previous;
    struct exchange *x;
    struct rpc *rpc;
    struct mcp_session *session; /* NULL: OpenEnv's. */
    bool opens;                  /* The session: its id is told. */
    bool takes_events;
    bool streams; /* Events are sent. */
};

struct mcp_http {
    struct mcp_http_options o;
    struct rpc *openenv;
    struct mcp_session *first;
    struct mcp_session *last;
    unsigned n_sessions;
    struct mcp_post *posts;
    struct timer *reaper;
};

/* http_session.c. NULL: every one has a call under way, or no memory. */
struct mcp_session *mcp_session_open(struct mcp_http *m);
struct mcp_session *mcp_session_find(struct mcp_http *m, struct sv id);
void mcp_session_touch(struct mcp_http *m, struct mcp_session *s);
/* Cancels its calls; its posts are answered with this status. */
void mcp_session_end(struct mcp_http *m, struct mcp_session *s, int status);
void mcp_sessions_reap(struct mcp_http *m); /* Those idle too long. */

/* http_post.c: feeds the message, and answers when there is an answer. */
void mcp_post_feed(struct mcp_http *m, struct exchange *x, struct mcp_session *s, bool opens,
                   const json_t *message);
/* Ends it without an answer of its own. */
void mcp_post_give_up(struct mcp_post *p, int status);

/* One JSON-RPC error without an id. */
void mcp_http_refuse(struct exchange *x, int status, const char *why);

#endif
