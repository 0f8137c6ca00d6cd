/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_OPENENV_OPENENV_H
#define SNAFFLE_SERVER_OPENENV_OPENENV_H

#include "net/server.h"
#include "rollout/task_list.h"
#include "server/mcp/rpc.h"

/*
 * The server as OpenEnv's clients know it: an environment whose one action is a call of the tool
 * run_rollout, over HTTP and WebSockets. Loop thread only, but for _new and _free. Who may ask at
 * all was looked at before.
 */
struct openenv;

struct openenv_options {
    struct loop *loop;
    struct tool_box *tools;
    unsigned sessions_max;         /* 0: SESSIONS_MAX_DEFAULT. */
    bool production;               /* No /reset, /step and /state. */
    bool web;                      /* The web page's routes, and redirects to it. */
    const struct task_list *tasks; /* For the task API; NULL: none. Kept. */
};

int openenv_new(const struct openenv_options *o, struct openenv **out,
                struct err *err) CHECK_RESULT;
/* Ends every WebSocket and cuts what is under way. Before the server is freed. Accepts NULL. */
void openenv_free(struct openenv *e);

/* That are open, and how many may be. */
unsigned openenv_sessions(const struct openenv *e, unsigned *max);

/* Answers the exchange if the path is one of OpenEnv's; `path` is without what stands for a key. */
bool openenv_request(struct openenv *e, struct exchange *x, struct sv path);

/* What its JSON-RPC has besides the tool, for /mcp over HTTP. Their `arg` is openenv_rpc_arg. */
extern const struct rpc_hooks openenv_rpc_hooks;
void *openenv_rpc_arg(struct openenv *e);

#endif
