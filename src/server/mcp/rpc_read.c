/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/json.h"
#include "server/mcp/rpc_internal.h"

static int invalid(int *code, struct err *err, const char *why) {
    *code = RPC_INVALID_REQUEST;
    return err_set(err, ERR_INPUT, "Invalid request: %s", why);
}

static const char *check_version(const json_t *message) {
    const char *version = json_string_value(json_object_get(message, "jsonrpc"));
    return version && strcmp(version, "2.0") == 0 ? NULL : "'jsonrpc' has to be \"2.0\"";
}

/* OpenEnv's schema forbids what it does not know. */
static const char *check_keys(const json_t *message) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)message, key, value) {
        if (strcmp(key, "jsonrpc") != 0 && strcmp(key, "id") != 0 && strcmp(key, "method") != 0 &&
            strcmp(key, "params") != 0) {
            return "only jsonrpc, id, method and params are known";
        }
    }
    return NULL;
}

/* NULL: good. */
static const char *read_id(enum rpc_face face, const json_t *message, struct rpc_request *q) {
    json_t *id = json_object_get(message, "id");
    if (json_is_string(id) || json_is_integer(id)) {
        q->id = json_incref(id);
        return NULL;
    }
    q->is_notification = face == RPC_MCP && !id;
    return !id || (face == RPC_OPENENV && json_is_null(id))
               ? NULL
               : "'id' has to be a string or a whole number";
}

static const char *read_call(enum rpc_face face, const json_t *message, const char **method,
                             const json_t **params) {
    const json_t *name = json_object_get(message, "method");
    const json_t *given = json_object_get(message, "params");
    if (!json_is_string(name) || strlen(json_string_value(name)) != json_string_length(name)) {
        return "'method' has to be a string";
    }
    if (given && !json_is_object(given) && !(face == RPC_MCP && json_is_null(given))) {
        return "'params' has to be an object";
    }
    *method = json_string_value(name);
    *params = json_is_object(given) ? given : NULL;
    return NULL;
}

/* A client's answer to a question of ours, of which there are none. */
static bool is_answer(const json_t *message) {
    return !json_object_get(message, "method") &&
           (json_object_get(message, "result") || json_object_get(message, "error"));
}

int rpc_read(const struct rpc *r, const json_t *message, struct rpc_request *q, const char **method,
             const json_t **params, int *code, struct err *err) {
    enum rpc_face face = r->o.face;
    if (!json_is_object(message)) {
        *code = face == RPC_OPENENV ? RPC_PARSE_ERROR : RPC_INVALID_REQUEST;
        return face == RPC_OPENENV
                   ? err_set(err, ERR_INPUT, "Parse error: the message is no object")
                   : invalid(code, err, "want one object (there are no batches)");
    }
    const char *why = check_version(message);
    if (!why && face == RPC_MCP && is_answer(message)) {
        q->is_notification = true;
        return 0;
    }
    const char *bad_id = read_id(face, message, q);
    why = why ? why : bad_id;
    why = why || face == RPC_MCP ? why : check_keys(message);
    why = why ? why : read_call(face, message, method, params);
    if (why) {
        q->is_notification = false; /* What it was meant to be is not known: it is told. */
        return invalid(code, err, why);
    }
    return 0;
}
