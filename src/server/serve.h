/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_SERVE_H
#define SNAFFLE_SERVER_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "rollout/task_list.h"
#include "server/tool/tool.h"

/* The server that trainers call: OpenEnv's routes and MCP on one port, over one box of the tool. */
struct serve_options {
    const char *host; /* NULL: 127.0.0.1. */
    uint16_t port;    /* 0: any; said on stdout. */
    const struct tool_options *tools;
    unsigned sessions_max; /* 0: 4. */
    bool production;
    bool web;
    const struct task_list *tasks; /* NULL: none. */
    const char *key;               /* NULL: none is asked for. */
    double drain_s;                /* How long rollouts may go on after a signal. */
};

/* Of a request's body. A task with its files is far below; the pages of a WebSocket's limit hold
 * here too. */
#define SERVE_BODY_MAX (32u << 20)
#define SERVE_HELD_MAX (256u << 20) /* Of all bodies in memory: eight of the greatest. */
/* Besides WebSockets, whose number the sessions bound. A trainer has one for each environment. */
#define SERVE_CLIENTS_MAX 2048u /* Or a quarter of the descriptors, if that is less. */
/* Between a cancelled rollout's collecting and its mere teardown. */
#define SERVE_COLLECT_S 10.0

/* Serves until SIGTERM or SIGINT; then no call is taken, those that run or wait may end, and what
 * is left is cancelled and torn down. A second signal cancels at once, a third tears down at once.
 * Prints one line to stdout when it listens. The process's signals and standard output are its. */
int serve_run(const struct serve_options *o, struct err *err) CHECK_RESULT;

#endif
