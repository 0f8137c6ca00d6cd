/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/json.h"
#include "server/mcp/protocol.h"
#include "server/mcp/rpc_internal.h"

const char *const mcp_versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", NULL};

bool mcp_version_known(struct sv version) {
    for (const char *const *v = mcp_versions; *v; v++) {
        if (sv_eq(version, sv_from(*v))) {
            return true;
        }
    }
    return false;
}

/* The client's version if it is known here, else our newest: the client decides then. */
static void initialize(struct rpc_request *q, const json_t *params) {
    const char *asked = json_string_value(json_object_get(params, "protocolVersion"));
    if (!asked) {
        rpc_fail(q, RPC_INVALID_PARAMS, NULL, "Missing 'protocolVersion' in params");
        return;
    }
    q->rpc->is_initialized = true;
    rpc_answer(q, json_pack("{s:s, s:{s:{}}, s:{s:s, s:s}, s:s}", "protocolVersion",
                            mcp_version_known(sv_from(asked)) ? asked : mcp_versions[0],
                            "capabilities", "tools", "serverInfo", "name", "snaffle", "version",
                            SNAFFLE_VERSION, "instructions",
                            "One tool: " TOOL_NAME
                            " lets a coding agent do a task in a sandbox, records its model calls, "
                            "and grades the work. A call takes minutes: ask for progress."));
}

static void cancel(struct rpc *r, const json_t *params) {
    const json_t *id = json_object_get(params, "requestId");
    for (struct rpc_request *q = r->first; q && id; q = q->next) {
        if (q->id && q->call && json_equal(q->id, id)) {
            q->is_cancelled = true;
            tool_call_cancel(q->call);
            return;
        }
    }
}

bool rpc_mcp_method(struct rpc_request *q, struct sv method, const json_t *params) {
    if (q->is_notification && sv_starts_with(method, SV("notifications/"))) {
        if (sv_eq(method, SV("notifications/cancelled"))) {
            cancel(q->rpc, params);
        }
        rpc_drop(q);
        return true;
    }
    if (sv_eq(method, SV("initialize"))) {
        initialize(q, params);
        return true;
    }
    if (sv_eq(method, SV("ping"))) {
        rpc_answer(q, json_object());
        return true;
    }
    return false;
}
