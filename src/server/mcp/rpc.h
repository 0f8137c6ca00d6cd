/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_RPC_H
#define SNAFFLE_SERVER_MCP_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sv.h"
#include "server/tool/tool.h"

/*
 * JSON-RPC for one session of a client, whatever carries it: fed one message at a time, it answers
 * by callback, at once or when a rollout has ended. Loop thread only.
 *
 *     rpc_new(&(struct rpc_options){.tools = box, .loop = l, .face = RPC_MCP}, &rpc, err);
 *     rpc_feed(rpc, SV("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"),
 *              &(struct rpc_sink){on_note, on_answer, me});
 *     rpc_free(rpc);
 */
struct rpc;
struct rpc_request;

enum rpc_face {
    /* A standard MCP client: initialize, ping, tools, notifications. A failed call is a result with
     * isError; no null where the protocol has none. */
    RPC_MCP,
    /* OpenEnv's clients: no greeting, strict requests, every message is answered, a failed call is
     * an error of -32603. */
    RPC_OPENENV,
};

enum {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL = -32603,
    RPC_SERVER_ERROR = -32000,
};

/* What a carrier adds, for one whose sessions have a life of their own (openenv/session/create and
 * close, `session_id` among params). All may be NULL. */
struct rpc_hooks {
    /* A method that is not known here. true: the hook answers it, by rpc_answer or rpc_fail, now or
     * later. `params` is an object or NULL. */
    bool (*method)(void *arg, struct rpc_request *q, struct sv method, const json_t *params);
    /* Before tools/list and tools/call (`is_call`). true: go on; false: as above. */
    bool (*enter)(void *arg, struct rpc_request *q, bool is_call, const json_t *params);
    /* A call that `enter` let pass has come to this. Once; not after rpc_free. */
    void (*leave)(void *arg, struct rpc_request *q, const struct tool_result *result);
};

struct rpc_options {
    struct tool_box *tools; /* Kept, as the loop and the hooks. */
    struct loop *loop;
    enum rpc_face face;
    const struct rpc_hooks *hooks; /* NULL: none. */
    void *hooks_arg;
};

/* Where the answer to one message goes. Copied; `arg` has to live until on_answer. */
struct rpc_sink {
    /* A notification that belongs to the message: its call's progress, if it asked for that. NULL:
     * none are wanted. */
    void (*on_note)(void *arg, struct sv message);
    /* Once, and last. Empty: there is nothing to say (to a notification, or to a request that was
     * cancelled). */
    void (*on_answer)(void *arg, struct sv message);
    void *arg;
    const char *client; /* Who sent it, for the operator; lent for the call. */
};

int rpc_new(const struct rpc_options *o, struct rpc **out, struct err *err) CHECK_RESULT;
/* Cancels the calls under way and forgets their sinks, which are not called any more. NULL:
 * nothing.
 */
void rpc_free(struct rpc *r);

/* Answers exactly once, perhaps from inside this call. Borrows the message. */
void rpc_feed(struct rpc *r, struct sv message, const struct rpc_sink *sink);
/* The same for a message that was parsed already. */
void rpc_feed_json(struct rpc *r, const json_t *message, const struct rpc_sink *sink);

/* Cancels what this sink's message began: its client has left. on_answer comes when all of it has
 * ended, with an empty message. Nothing, if it was answered. */
void rpc_abandon(struct rpc *r, const void *sink_arg);

unsigned rpc_calls(const struct rpc *r); /* Requests that are still to be answered. */
bool rpc_is_initialized(const struct rpc *r);

/* For hooks. Each request is answered once. Takes the objects; data may be NULL. */
void rpc_answer(struct rpc_request *q, json_t *result);
void rpc_fail(struct rpc_request *q, int code, json_t *data, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void *rpc_request_sink(const struct rpc_request *q); /* The `arg` of its sink. */

#endif
