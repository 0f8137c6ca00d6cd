/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_RPC_INTERNAL_H
#define SNAFFLE_SERVER_MCP_RPC_INTERNAL_H

#include "server/mcp/rpc.h"

/* What the files behind rpc.h share. */

struct rpc {
    struct rpc_options o;
    struct rpc_request *first; /* To be answered; linked both ways. */
    unsigned n;
    bool is_initialized;
};

struct rpc_request {
    struct rpc *rpc; /* NULL: freed before the answer; there is nobody to tell. */
    struct rpc_request *next;
    struct rpc_request *previous;
    struct rpc_sink sink;
    json_t *id;           /* NULL: none, or null. */
    bool is_notification; /* Of MCP: nothing is answered. */
    bool is_cancelled;    /* Likewise. */
    json_t *token;        /* Of the client, for progress; or NULL. */
    uint64_t told;        /* How often. */
    double tick_s;        /* When a tick was told last. */
    struct tool_call *call;
};

/* rpc_read.c: fills a request from the message. On failure *code is JSON-RPC's. */
int rpc_read(const struct rpc *r, const json_t *message, struct rpc_request *q, const char **method,
             const json_t **params, int *code, struct err *err) CHECK_RESULT;

/* rpc_tools.c */
void rpc_list_tools(struct rpc_request *q, const json_t *params);
void rpc_call_tool(struct rpc_request *q, const json_t *params);

/* rpc_mcp.c: methods that only MCP has. false: no such. */
bool rpc_mcp_method(struct rpc_request *q, struct sv method, const json_t *params);

/* Answers with a result that is rendered already, and frees the request. */
void rpc_answer_raw(struct rpc_request *q, struct sv result);
/* Answers nothing. */
void rpc_drop(struct rpc_request *q);

#endif
