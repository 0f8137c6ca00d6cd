/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_LINES_H
#define SNAFFLE_SERVER_MCP_LINES_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* Takes a stream apart into its lines, however it is cut. All zero is the beginning. */
#define MCP_LINE_MAX (64u * 1024 * 1024) /* As a request over HTTP. */

struct mcp_lines {
    struct buf held;  /* The beginning of a line. */
    bool is_too_long; /* What follows belongs to a line that was given up. */
};

/* Called with each line, without its end and a carriage return before; not with empty ones.
 * `is_too_long`: one of more than MCP_LINE_MAX bytes went by, and `line` is empty. */
typedef void (*mcp_line_fn)(void *arg, struct sv line, bool is_too_long);

int mcp_lines_feed(struct mcp_lines *l, struct sv bytes, mcp_line_fn fn, void *arg,
                   struct err *err) CHECK_RESULT;
void mcp_lines_end(struct mcp_lines *l, mcp_line_fn fn, void *arg); /* Gives what is left. */
void mcp_lines_deinit(struct mcp_lines *l);

#endif
