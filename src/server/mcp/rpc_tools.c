/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "server/mcp/result.h"
#include "server/mcp/rpc_internal.h"

#define TICK_S 5.0 /* Often enough for a client whose time-out begins anew with each. */

/* Whether the carrier lets the request pass. */
static bool enters(struct rpc_request *q, bool is_call, const json_t *params) {
    const struct rpc_options *o = &q->rpc->o;
    return !o->hooks || !o->hooks->enter || o->hooks->enter(o->hooks_arg, q, is_call, params);
}

void rpc_list_tools(struct rpc_request *q, const json_t *params) {
    AUTO_BUF struct buf list = {0};
    struct err err = {0};
    if (q->rpc->o.face == RPC_MCP && json_is_string(json_object_get(params, "cursor"))) {
        rpc_fail(q, RPC_INVALID_PARAMS, NULL, "Unknown 'cursor': the list has one page");
    } else if (!enters(q, /* is_call= */ false, params)) {
        return;
    } else if (result_tools(q->rpc->o.tools, &list, &err) < 0) {
        rpc_fail(q, RPC_INTERNAL, NULL, "%s", err.msg);
    } else {
        rpc_answer_raw(q, buf_sv(&list));
    }
}

/* "agent running (42 s, 3 calls, 512 tokens)" */
static int add_message(const struct tool_progress *p, struct buf *out) {
    char text[400];
    if (p->calls > 0) {
        snprintf(text, sizeof text, "%s (%.0f s, %llu calls, %llu tokens)", p->text, p->elapsed_s,
                 (unsigned long long)p->calls, (unsigned long long)p->completion_tokens);
    } else {
        snprintf(text, sizeof text, "%s (%.0f s)", p->text, p->elapsed_s);
    }
    return json_quote(sv_from(text), out);
}

static void on_progress(void *arg, const struct tool_progress *p) {
    struct rpc_request *q = arg;
    AUTO_BUF struct buf out = {0};
    if (!q->rpc || q->is_cancelled || (p->tick && p->elapsed_s - q->tick_s < TICK_S)) {
        return;
    }
    q->tick_s = p->elapsed_s;
    q->told++;
    int r = buf_adds(&out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                           "\"progressToken\":");
    r = r < 0 ? r : json_compact(q->token, &out);
    r = r < 0 ? r : buf_addf(&out, ",\"progress\":%llu,\"message\":", (unsigned long long)q->told);
    r = r < 0 ? r : add_message(p, &out);
    r = r < 0 ? r : buf_adds(&out, "}}");
    if (r == 0) {
        q->sink.on_note(q->sink.arg, buf_sv(&out));
    }
}

static void on_done(void *arg, const struct tool_result *result) {
    struct rpc_request *q = arg;
    struct rpc *r = q->rpc;
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    q->call = NULL;
    if (r && r->o.hooks && r->o.hooks->leave) {
        r->o.hooks->leave(r->o.hooks_arg, q, result);
    }
    if (!r || q->is_cancelled) {
        rpc_drop(q);
    } else if (r->o.face == RPC_OPENENV && result->outcome != TOOL_DONE) {
        rpc_fail(q, RPC_INTERNAL, NULL, "%.*s", SV_ARG(result->text));
    } else if (result_object(result, r->o.face == RPC_OPENENV, &out, &err) < 0) {
        rpc_fail(q, RPC_INTERNAL, NULL, "%s", err.msg);
    } else {
        rpc_answer_raw(q, buf_sv(&out));
    }
}

static void take_token(struct rpc_request *q, const json_t *params) {
    json_t *token = json_object_get(json_object_get(params, "_meta"), "progressToken");
    if (q->sink.on_note && (json_is_string(token) || json_is_integer(token))) {
        q->token = json_incref(token);
    }
}

void rpc_call_tool(struct rpc_request *q, const json_t *params) {
    const struct rpc_options *o = &q->rpc->o;
    const json_t *name = json_object_get(params, "name");
    const json_t *arguments = json_object_get(params, "arguments");
    struct err err = {0};
    if (q->is_notification) {
        rpc_drop(q); /* Nobody could ever have its result. */
        return;
    }
    if (!json_is_string(name)) {
        rpc_fail(q, RPC_INVALID_PARAMS, NULL, "Missing 'name' in params");
        return;
    }
    if (arguments && !json_is_object(arguments) && !json_is_null(arguments)) {
        rpc_fail(q, RPC_INVALID_PARAMS, NULL, "'arguments' in params has to be an object");
        return;
    }
    if (!sv_eq(json_sv(name), SV(TOOL_NAME))) {
        rpc_fail(q, o->face == RPC_MCP ? RPC_INVALID_PARAMS : RPC_INTERNAL, NULL,
                 "Unknown tool: '%.100s'", json_string_value(name));
        return;
    }
    if (!enters(q, /* is_call= */ true, params)) {
        return;
    }
    take_token(q, params);
    struct tool_watch watch = {o->loop, q->token ? on_progress : NULL, on_done, q, q->sink.client};
    arguments = json_is_null(arguments) ? NULL : arguments;
    if (tool_call_start(o->tools, arguments, &watch, &q->call, &err) < 0) {
        on_done(q, &(struct tool_result){.outcome = TOOL_FAILED,
                                         .text = SV("the call could not be begun"),
                                         .quoted = SV("\"the call could not be begun\"")});
    }
}
