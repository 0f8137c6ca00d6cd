/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_STDIO_SERVE_H
#define SNAFFLE_SERVER_MCP_STDIO_SERVE_H

#include "base/cancel.h"
#include "base/err.h"
#include "server/tool/tool.h"

/* MCP over two descriptors: a message a line, in and out, one session. */
struct mcp_stdio_options {
    struct tool_box *tools;
    int in;
    int out;
    const struct cancel *soft; /* Ends it: what runs is stopped, collected and torn down, */
    const struct cancel *hard; /* or only torn down. */
};

/* Serves until the input ends, nobody reads the output, or it is stopped; then ends what runs.
 * Blocks. */
int mcp_stdio_run(const struct mcp_stdio_options *o, struct err *err) CHECK_RESULT;

#endif
