/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/http.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/mcp/http_internal.h"
#include "server/mcp/protocol.h"

#define REAP_MS 60000 /* Looked at so often. */

static void on_reap(void *arg) {
    struct mcp_http *m = arg;
    mcp_sessions_reap(m);
    timer_start(m->reaper, REAP_MS);
}

int mcp_http_new(const struct mcp_http_options *o, struct mcp_http **out, struct err *err) {
    struct mcp_http *m = calloc(1, sizeof *m);
    if (!m) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    m->o = *o;
    struct rpc_options openenv = {o->tools, o->loop, RPC_OPENENV, o->openenv, o->openenv_arg};
    int r = rpc_new(&openenv, &m->openenv, err);
    r = r < 0 ? r : timer_new(o->loop, on_reap, m, &m->reaper, err);
    if (r < 0) {
        mcp_http_free(m);
        return r;
    }
    timer_start(m->reaper, REAP_MS);
    *out = m;
    return 0;
}

void mcp_http_free(struct mcp_http *m) {
    if (!m) {
        return;
    }
    while (m->first) {
        mcp_session_end(m, m->first, 503);
    }
    while (m->posts) {
        mcp_post_give_up(m->posts, 503);
    }
    rpc_free(m->openenv);
    timer_free(m->reaper);
    free(m);
}

void mcp_http_refuse(struct exchange *x, int status, const char *why) {
    AUTO_BUF struct buf body = {0};
    int r = buf_addf(&body,
                     "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":%d,\"message\":", RPC_SERVER_ERROR);
    r = r < 0 ? r : json_quote(sv_from(why), &body);
    r = r < 0 ? r : buf_adds(&body, "}}");
    exchange_reply(x, status, SV("application/json"), r < 0 ? SV("") : buf_sv(&body));
}

static struct sv field_of(const struct exchange *x, struct sv name) {
    return http1_get(exchange_head(x), name);
}

/* A page of another origin can send text/plain without asking first. */
static bool is_json(const struct exchange *x) {
    struct sv type = field_of(x, SV("Content-Type"));
    const char *semicolon = type.n ? memchr(type.p, ';', type.n) : NULL;
    if (semicolon) {
        type.n = (size_t)(semicolon - type.p);
    }
    return type.n == 0 || sv_eq_nocase(sv_trim(type), SV("application/json"));
}

static bool is_initialize(const json_t *message) {
    const char *method = json_string_value(json_object_get(message, "method"));
    return method && strcmp(method, "initialize") == 0 && json_object_get(message, "id");
}

static void open_and_feed(struct mcp_http *m, struct exchange *x, const json_t *message) {
    struct mcp_session *s = mcp_session_open(m);
    if (!s) {
        mcp_http_refuse(x, 503, "too many sessions (try again later)");
        return;
    }
    mcp_post_feed(m, x, s, /* opens= */ true, message);
    if (!rpc_is_initialized(s->rpc)) {
        mcp_session_end(m, s, 404);
    }
}

/* NULL: it was refused. */
static struct mcp_session *session_of(struct mcp_http *m, struct exchange *x) {
    struct sv version = field_of(x, SV("MCP-Protocol-Version"));
    struct mcp_session *s = mcp_session_find(m, field_of(x, SV("Mcp-Session-Id")));
    if (!s) {
        mcp_http_refuse(x, 404, "no such session (it may have ended: send initialize again)");
    } else if (version.n > 0 && !mcp_version_known(version)) {
        mcp_http_refuse(x, 400, "this MCP-Protocol-Version is not known here");
        s = NULL;
    } else {
        mcp_session_touch(m, s);
    }
    return s;
}

static void on_post(struct mcp_http *m, struct exchange *x) {
    AUTO_JSON json_t *message = NULL;
    struct err ignored = {0};
    if (!is_json(x)) {
        mcp_http_refuse(x, 415, "want Content-Type: application/json");
        return;
    }
    (void)!json_parse(exchange_body(x), "body", &message,
                      &ignored);  /* Told by whom it is fed to. */
    if (is_initialize(message)) { /* With a session's id too: a client begins anew. */
        open_and_feed(m, x, message);
        return;
    }
    struct mcp_session *s = NULL;
    if (field_of(x, SV("Mcp-Session-Id")).n > 0 && !(s = session_of(m, x))) {
        return;
    }
    mcp_post_feed(m, x, s, /* opens= */ false, message);
}

static void on_delete(struct mcp_http *m, struct exchange *x) {
    if (field_of(x, SV("Mcp-Session-Id")).n == 0) {
        mcp_http_refuse(x, 400, "want the Mcp-Session-Id of the session to end");
        return;
    }
    struct mcp_session *s = session_of(m, x);
    if (s) {
        mcp_session_end(m, s, 404);
        exchange_reply(x, 200, SV(""), SV(""));
    }
}

/* Also GET: there is nothing that is not an answer to a message. */
static void on_other(struct exchange *x) {
    static const char body[] =
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"Method "
        "not allowed\"}}";
    const struct server_field fields[] = {{SV("Content-Type"), SV("application/json")},
                                          {SV("Allow"), SV("POST, DELETE")}};
    (void)exchange_start(x, 405, fields, ARRAY_LEN(fields), HTTP1_LENGTH, sizeof body - 1);
    (void)exchange_send(x, sv_from(body));
    exchange_end(x);
}

void mcp_http_request(struct mcp_http *m, struct exchange *x) {
    struct sv method = exchange_head(x)->method;
    if (sv_eq(method, SV("POST"))) {
        on_post(m, x);
    } else if (sv_eq(method, SV("DELETE"))) {
        on_delete(m, x);
    } else {
        on_other(x);
    }
}
