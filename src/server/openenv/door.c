/* SPDX-License-Identifier: BSD-3-Clause */
/* What OpenEnv's JSON-RPC has besides the tool: sessions, made and ended by messages. */
#include <stdlib.h>

#include "base/json.h"
#include "server/openenv/face.h"

static void create(struct rpc_door *d, struct rpc_request *q) {
    struct sessions *s = d->openenv->sessions;
    struct session *made = d->own;
    struct err err = {0};
    int r = made ? 0 : sessions_open(s, /* over_http= */ true, &made, &err);
    if (r == 0) {
        rpc_answer(q, json_pack("{s:s}", "session_id", made->id));
    } else {
        rpc_fail(q, RPC_SERVER_ERROR,
                 json_pack("{s:i, s:i}", "active_sessions", (int)sessions_active(s), "max_sessions",
                           (int)sessions_max(s)),
                 "%s", err.msg);
    }
}

/* NULL: it was answered. */
static struct session *find(struct rpc_door *d, struct rpc_request *q, const json_t *id) {
    struct sv text = {json_string_value(id), json_string_length(id)};
    struct session *found = NULL;
    if (!json_is_string(id)) {
        rpc_fail(q, RPC_INVALID_PARAMS, NULL, "session_id has to be a string");
        return NULL;
    }
    found = sessions_find(d->openenv->sessions, text);
    if (!found) {
        rpc_fail(q, RPC_INVALID_PARAMS, NULL, "Unknown session_id: %.*s",
                 (int)(text.n < 100 ? text.n : 100), text.p);
    }
    return found;
}

static void close_one(struct rpc_door *d, struct rpc_request *q, const json_t *params) {
    const json_t *id = json_object_get(params, "session_id");
    if (!id) {
        rpc_fail(q, RPC_INVALID_PARAMS, NULL, "Missing 'session_id' in params");
        return;
    }
    struct session *one = find(d, q, id);
    if (!one) {
        return;
    }
    if (!one->over_http || one == d->own) {
        rpc_fail(q, RPC_INVALID_REQUEST, NULL,
                 "Cannot close a WebSocket's own session: close the WebSocket");
        return;
    }
    if (one->is_attached) {
        one->ends_with_it = true;
        rpc_answer(q,
                   json_pack("{s:s, s:b, s:b}", "session_id", one->id, "closed", 0, "closing", 1));
    } else {
        rpc_answer(q, json_pack("{s:s, s:b}", "session_id", one->id, "closed", 1));
        sessions_close(d->openenv->sessions, one);
    }
}

static bool on_method(void *arg, struct rpc_request *q, struct sv method, const json_t *params) {
    struct rpc_door *d = arg;
    if (sv_eq(method, SV("openenv/session/create"))) {
        create(d, q);
        return true;
    }
    if (sv_eq(method, SV("openenv/session/close"))) {
        close_one(d, q, params);
        return true;
    }
    return false;
}

static bool on_enter(void *arg, struct rpc_request *q, bool is_call, const json_t *params) {
    struct rpc_door *d = arg;
    const json_t *id = json_object_get(params, "session_id");
    struct session *one = id ? find(d, q, id) : d->own;
    if (!one) {
        return !id; /* Without a session: an environment that nobody will look at. */
    }
    session_asked(d->openenv->sessions, one);
    if (!is_call) {
        return true;
    }
    struct rpc_use *use = calloc(1, sizeof *use);
    if (!use) {
        rpc_fail(q, RPC_INTERNAL, NULL, "out of memory");
        return false;
    }
    *use = (struct rpc_use){d->uses, q, one};
    d->uses = use;
    session_use(one);
    one->calls++;
    one->environment.step_count++;
    return true;
}

static void end_use(struct rpc_door *d, struct rpc_use *use) {
    session_touch(d->openenv->sessions, use->session);
    use->session->calls--;
    session_release(use->session);
    free(use);
}

static void on_leave(void *arg, struct rpc_request *q, const struct tool_result *result) {
    struct rpc_door *d = arg;
    struct rpc_use **at = &d->uses;
    while (*at && (*at)->request != q) {
        at = &(*at)->next;
    }
    struct rpc_use *use = *at;
    if (use) {
        *at = use->next;
        environment_note(&use->session->environment, result);
        end_use(d, use);
    }
}

void door_forget(struct rpc_door *d) {
    while (d->uses) {
        struct rpc_use *use = d->uses;
        d->uses = use->next;
        end_use(d, use);
    }
}

const struct rpc_hooks openenv_rpc_hooks = {
    .method = on_method,
    .enter = on_enter,
    .leave = on_leave,
};

void *openenv_rpc_arg(struct openenv *e) {
    return &e->http_door;
}
