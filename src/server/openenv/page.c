/* SPDX-License-Identifier: BSD-3-Clause */
/* A page for people who open the server in a browser. */
#include "server/openenv/face.h"

static const char page[] =
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>snaffle serve</title>\n"
    "<style>body{font:16px/1.5 sans-serif;max-width:46em;margin:2em auto;padding:0 1em}"
    "td{padding:.1em 1em .1em 0;vertical-align:top}code,pre{background:#8882;padding:.1em .3em}"
    "pre{padding:.6em;overflow:auto}:root{color-scheme:light dark}</style>\n"
    "<h1>snaffle serve</h1>\n"
    "<p>Runs a coding agent in a sandbox on a task, records every model call with token ids and "
    "log-probabilities, and grades the outcome. There is one tool, <code>run_rollout</code>; its "
    "arguments stand in the answer to <code>tools/list</code>.</p>\n"
    "<table>\n"
    "<tr><td><code>POST /mcp</code><td>MCP (Streamable HTTP), and OpenEnv's JSON-RPC\n"
    "<tr><td><code>/ws</code><td>WebSocket of OpenEnv's clients\n"
    "<tr><td><code>/mcp</code><td>the same path as a WebSocket: JSON-RPC\n"
    "<tr><td><code>POST /reset</code>, <code>POST /step</code>, <code>GET /state</code>"
    "<td>one environment a request (not in production mode)\n"
    "<tr><td><code>GET /health</code>, <code>/metadata</code>, <code>/schema</code>, "
    "<code>/openapi.json</code><td>what it is\n"
    "</table>\n"
    "<pre>from openenv.core.mcp_client import MCPToolClient\n\n"
    "with MCPToolClient(base_url=\"http://HOST:PORT\", message_timeout_s=1800).sync() as env:\n"
    "    env.reset()\n"
    "    print(env.call_tool(\"run_rollout\", instruction=\"...\", endpoint=\"vllm\"))</pre>\n";

void page_show(const struct openenv *e, struct exchange *x) {
    (void)e;
    exchange_reply(x, 200, SV("text/html; charset=utf-8"), sv_from(page));
}
