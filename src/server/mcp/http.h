/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_HTTP_H
#define SNAFFLE_SERVER_MCP_HTTP_H

#include "net/server.h"
#include "server/mcp/rpc.h"

/*
 * /mcp over HTTP, for both kinds of clients. Standard ones (Streamable HTTP) begin with initialize,
 * get a session's id and send it along; the answer to a call is a stream of events if they take
 * one, with progress as it comes. A message without a session's id that is no initialize is
 * OpenEnv's: whole JSON in, whole JSON out, status 200. Who may ask at all (key, Origin) was looked
 * at before. Loop thread only.
 */
struct mcp_http;

#define MCP_HTTP_SESSIONS_MAX                                                                      \
    1024                         /* Many clients never end theirs: the one unused longest goes.    \
                                  */
#define MCP_HTTP_IDLE_MS 3600000 /* Without a request or a call under way: an hour. */
#define MCP_HTTP_BEAT_MS 15000   /* A comment in a quiet stream: proxies cut after 30 s or 60 s. */

struct mcp_http_options {
    struct loop *loop;
    struct tool_box *tools;
    const struct rpc_hooks *openenv; /* For OpenEnv's messages; or NULL. */
    void *openenv_arg;
};

int mcp_http_new(const struct mcp_http_options *o, struct mcp_http **out,
                 struct err *err) CHECK_RESULT;
/* Before the server is freed. Cancels what is under way and ends its answers. Accepts NULL. */
void mcp_http_free(struct mcp_http *m);

/* Takes the exchange: POST, GET or DELETE of /mcp; another method is answered 405. */
void mcp_http_request(struct mcp_http *m, struct exchange *x);

#endif
