/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_MCP_RESULT_H
#define SNAFFLE_SERVER_MCP_RESULT_H

#include "base/buf.h"
#include "server/tool/tool.h"

/* What a call of the tool came to, as the wire has it. Each appends one JSON object; the text is
 * copied, never parsed again. */

/* Above it a result stands in an answer once for MCP and twice for OpenEnv, not four times: the
 * newest MCP client for Python takes no event of more than 1 MB unless it is told to. */
#define RESULT_SMALL_MAX (128u * 1024)

/* The result of tools/call: MCP's names and the reference's side by side, without a null where MCP
 * has none. A failed call has isError. `for_openenv` counts only for large ones. */
int result_object(const struct tool_result *r, bool for_openenv, struct buf *out,
                  struct err *err) CHECK_RESULT;

/* The observation of OpenEnv's step: {"tool_name", "result", "error"}, where the result is as
 * FastMCP has it. `timed_out_s` > 0: the call was given up after so long, whatever `r` says (which
 * may be NULL then). */
int result_observation(const struct tool_result *r, double timed_out_s, struct buf *out,
                       struct err *err) CHECK_RESULT;

/* {"tools": [...]} with the one entry: name, description, inputSchema and input_schema. */
int result_tools(const struct tool_box *b, struct buf *out, struct err *err) CHECK_RESULT;

#endif
