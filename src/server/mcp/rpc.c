/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/mcp/rpc_internal.h"

int rpc_new(const struct rpc_options *o, struct rpc **out, struct err *err) {
    struct rpc *r = calloc(1, sizeof *r);
    if (!r) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    r->o = *o;
    *out = r;
    return 0;
}

void rpc_free(struct rpc *r) {
    if (!r) {
        return;
    }
    while (r->first) {
        struct rpc_request *q = r->first;
        r->first = q->next;
        q->rpc = NULL;
        q->next = q->previous = NULL;
        if (q->call) {
            tool_call_cancel(q->call);
        }
    }
    free(r);
}

unsigned rpc_calls(const struct rpc *r) {
    return r->n;
}

bool rpc_is_initialized(const struct rpc *r) {
    return r->is_initialized;
}

void *rpc_request_sink(const struct rpc_request *q) {
    return q->sink.arg;
}

static void enter(struct rpc *r, struct rpc_request *q) {
    q->rpc = r;
    q->next = r->first;
    if (r->first) {
        r->first->previous = q;
    }
    r->first = q;
    r->n++;
}

/* Answers the message and forgets it. */
static void finish(struct rpc_request *q, struct sv message) {
    struct rpc *r = q->rpc;
    bool is_silent = q->is_cancelled || q->is_notification;
    if (r) {
        *(q->previous ? &q->previous->next : &r->first) = q->next;
        if (q->next) {
            q->next->previous = q->previous;
        }
        r->n--;
        q->sink.on_answer(q->sink.arg, is_silent ? SV("") : message);
    }
    json_decref(q->id);
    json_decref(q->token);
    free(q);
}

void rpc_drop(struct rpc_request *q) {
    finish(q, SV(""));
}

/* {"jsonrpc":"2.0","id":ID, */
static int add_head(const struct rpc_request *q, struct buf *out) {
    bool is_openenv = q->rpc && q->rpc->o.face == RPC_OPENENV;
    int r = buf_adds(out, "{\"jsonrpc\":\"2.0\",");
    if (r < 0 || (!q->id && !is_openenv)) {
        return r; /* MCP's clients take no null. */
    }
    r = buf_adds(out, "\"id\":");
    r = r < 0 ? r : q->id ? json_compact(q->id, out) : buf_adds(out, "null");
    return r < 0 ? r : buf_addc(out, ',');
}

#define NO_MEMORY                                                                                  \
    SV("{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"out of memory\"}}")

void rpc_answer_raw(struct rpc_request *q, struct sv result) {
    AUTO_BUF struct buf out = {0};
    int r = add_head(q, &out);
    r = r < 0 ? r : buf_adds(&out, "\"result\":");
    r = r < 0 ? r : buf_add_sv(&out, result);
    r = r < 0 ? r : buf_addc(&out, '}');
    finish(q, r < 0 ? NO_MEMORY : buf_sv(&out));
}

void rpc_answer(struct rpc_request *q, json_t *result) {
    AUTO_BUF struct buf text = {0};
    int r = result ? json_compact(result, &text) : ERR_NOMEM;
    json_decref(result);
    if (r < 0) {
        finish(q, NO_MEMORY);
    } else {
        rpc_answer_raw(q, buf_sv(&text));
    }
}

static int add_error(const struct rpc_request *q, int code, const json_t *data, const char *message,
                     struct buf *out) {
    bool is_openenv = q->rpc && q->rpc->o.face == RPC_OPENENV;
    int r = add_head(q, out);
    r = r < 0 ? r : buf_addf(out, "\"error\":{\"code\":%d,\"message\":", code);
    r = r < 0 ? r : json_quote(sv_from(message), out);
    if (r == 0 && (data || is_openenv)) {
        r = buf_adds(out, ",\"data\":");
        r = r < 0 ? r : data ? json_compact(data, out) : buf_adds(out, "null");
    }
    return r < 0 ? r : buf_adds(out, "}}");
}

void rpc_fail(struct rpc_request *q, int code, json_t *data, const char *fmt, ...) {
    AUTO_BUF struct buf out = {0};
    char message[ERR_MSG_MAX + 64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    int r = add_error(q, code, data, message, &out);
    json_decref(data);
    finish(q, r < 0 ? NO_MEMORY : buf_sv(&out));
}

/* The method by its name. */
static void dispatch(struct rpc_request *q, struct sv method, const json_t *params) {
    const struct rpc_options *o = &q->rpc->o;
    if (sv_eq(method, SV("tools/list"))) {
        rpc_list_tools(q, params);
    } else if (sv_eq(method, SV("tools/call"))) {
        rpc_call_tool(q, params);
    } else if (o->face == RPC_MCP && rpc_mcp_method(q, method, params)) {
        return;
    } else if (o->hooks && o->hooks->method && o->hooks->method(o->hooks_arg, q, method, params)) {
        return;
    } else if (q->is_notification) {
        rpc_drop(q);
    } else {
        rpc_fail(q, RPC_METHOD_NOT_FOUND, NULL, "Method not found: %.200s", method.p);
    }
}

/* An id that is under way already can't be told from the other when it is cancelled. */
static bool is_in_use(const struct rpc *r, const json_t *id) {
    for (const struct rpc_request *q = r->first; q; q = q->next) {
        if (q->id && id && json_equal(q->id, id)) {
            return r->o.face == RPC_MCP;
        }
    }
    return false;
}

static struct rpc_request *request_new(const struct rpc_sink *sink) {
    struct rpc_request *q = calloc(1, sizeof *q);
    if (!q) {
        sink->on_answer(sink->arg, NO_MEMORY);
        return NULL;
    }
    q->sink = *sink;
    return q;
}

void rpc_feed_json(struct rpc *r, const json_t *message, const struct rpc_sink *sink) {
    const char *method = NULL;
    const json_t *params = NULL;
    struct err err = {0};
    int code = 0;
    struct rpc_request *q = request_new(sink);
    if (!q) {
        return;
    }
    int failed = rpc_read(r, message, q, &method, &params, &code, &err);
    bool in_use = failed == 0 && is_in_use(r, q->id);
    enter(r, q);
    if (failed < 0) {
        rpc_fail(q, code, NULL, "%s", err.msg);
    } else if (in_use) {
        rpc_fail(q, RPC_INVALID_REQUEST, NULL, "Invalid request: this id is in use");
    } else if (!method) {
        rpc_drop(q); /* An answer: nothing was asked. */
    } else {
        dispatch(q, sv_from(method), params);
    }
}

void rpc_feed(struct rpc *r, struct sv message, const struct rpc_sink *sink) {
    AUTO_JSON json_t *value = NULL;
    struct err ignored = {0}; /* It quotes the message, which may hold a key. */
    if (json_parse(message, "message", &value, &ignored) == 0) {
        rpc_feed_json(r, value, sink);
        return;
    }
    struct rpc_request *q = request_new(sink);
    if (q) {
        enter(r, q);
        rpc_fail(q, RPC_PARSE_ERROR, NULL, "Parse error: the message is no valid JSON");
    }
}

void rpc_abandon(struct rpc *r, const void *sink_arg) {
    for (struct rpc_request *q = r->first; q; q = q->next) {
        if (q->sink.arg == sink_arg) {
            q->is_cancelled = true;
            if (q->call) {
                tool_call_cancel(q->call);
            }
            return;
        }
    }
}
