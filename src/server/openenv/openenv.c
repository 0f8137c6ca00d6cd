/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/openenv.h"

#include <stdlib.h>

#include "base/json.h"
#include "net/websocket.h"
#include "server/openenv/face.h"

int openenv_new(const struct openenv_options *o, struct openenv **out, struct err *err) {
    struct openenv *e = calloc(1, sizeof *e);
    if (!e) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = sessions_new(o->loop, o->sessions_max, &e->sessions, err);
    if (r < 0) {
        free(e);
        return r;
    }
    e->options = *o;
    e->http_door.openenv = e;
    *out = e;
    return 0;
}

static void end(void *arg) {
    struct openenv *e = arg;
    link_end_all(e);
    http_end_all(e);
    watchers_end(&e->watchers);
    door_forget(&e->http_door);
    if (e->web) {
        session_release(e->web);
    }
    sessions_free(e->sessions);
    free(e);
}

unsigned openenv_sessions(const struct openenv *e, unsigned *max) {
    *max = sessions_max(e->sessions);
    return sessions_active(e->sessions);
}

void openenv_free(struct openenv *e) {
    if (e) {
        loop_call(e->options.loop, end, e);
    }
}

/* --- who answers what --- */

static void health(struct openenv *e, struct exchange *x) {
    (void)e;
    exchange_reply(x, 200, SV("application/json"), SV("{\"status\":\"healthy\"}"));
}

static void metadata(struct openenv *e, struct exchange *x) {
    (void)e;
    http_json(x, 200, schema_metadata("OpenCodeEnvironment"));
}

static void schema(struct openenv *e, struct exchange *x) {
    (void)e;
    http_json(x, 200, schema_all());
}

static void openapi(struct openenv *e, struct exchange *x) {
    http_json(x, 200, schema_openapi(e));
}

static void page(struct openenv *e, struct exchange *x) {
    page_show(e, x);
}

static void reset(struct openenv *e, struct exchange *x) {
    http_reset(e, x, NULL);
}

static void step(struct openenv *e, struct exchange *x) {
    http_step(e, x, NULL);
}

static void state(struct openenv *e, struct exchange *x) {
    http_state(e, x, NULL);
}

/* --- the web page's one environment --- */

static void with_web(struct openenv *e, struct exchange *x,
                     void (*answer)(struct openenv *e, struct exchange *x, struct session *s)) {
    struct err err = {0};
    if (!e->web && session_make(&e->web, &err) < 0) {
        http_json(x, 500, NULL);
    } else {
        answer(e, x, e->web);
    }
}

static void web_metadata(struct openenv *e, struct exchange *x) {
    (void)e;
    http_json(x, 200, schema_metadata("opencode_env"));
}

static void web_reset(struct openenv *e, struct exchange *x) {
    with_web(e, x, http_reset);
}

static void web_step(struct openenv *e, struct exchange *x) {
    with_web(e, x, http_step);
}

static void web_state(struct openenv *e, struct exchange *x) {
    with_web(e, x, http_state);
}

/* To a name beside this one: behind a key in the path the key is neither lost nor said. */
static void redirect(struct openenv *e, struct exchange *x) {
    struct sv path = exchange_path(x);
    bool has_prefix = !sv_eq(path, SV("/")) && !sv_eq(path, SV("/web"));
    (void)e;
    const struct server_field to = {SV("Location"), has_prefix ? SV("web/") : SV("/web/")};
    (void)exchange_start(x, 307, &to, 1, HTTP1_LENGTH, 0);
    exchange_end(x);
}

struct route {
    const char *path;
    bool posts;
    bool simulation;
    bool web;
    void (*answer)(struct openenv *e, struct exchange *x);
};

static const struct route routes[] = {
    {"/health", false, false, false, health},
    {"/metadata", false, false, false, metadata},
    {"/schema", false, false, false, schema},
    {"/openapi.json", false, false, false, openapi},
    {"/docs", false, false, false, page},
    {"/redoc", false, false, false, page},
    {"/reset", true, true, false, reset},
    {"/step", true, true, false, step},
    {"/state", false, true, false, state},
    {"/", false, false, true, redirect},
    {"/web", false, false, true, redirect},
    {"/web/", false, false, true, page},
    {"/web/metadata", false, false, true, web_metadata},
    {"/web/reset", true, false, true, web_reset},
    {"/web/step", true, false, true, web_step},
    {"/web/state", false, false, true, web_state},
};

static bool is_method(const struct route *route, struct sv method) {
    return route->posts ? sv_eq(method, SV("POST"))
                        : sv_eq(method, SV("GET")) || sv_eq(method, SV("HEAD"));
}

static bool answer_socket(struct openenv *e, struct exchange *x, struct sv path) {
    bool is_mcp = sv_eq(path, SV("/mcp"));
    if (websocket_is_asked(x) && e->options.web && sv_eq(path, SV("/ws/ui"))) {
        watchers_join(&e->watchers, x, e->web ? &e->web->environment : NULL);
        return true;
    }
    if (!websocket_is_asked(x) || (!is_mcp && !sv_eq(path, SV("/ws")))) {
        return false;
    }
    link_accept(e, x, is_mcp);
    return true;
}

bool openenv_request(struct openenv *e, struct exchange *x, struct sv path) {
    const struct openenv_options *o = &e->options;
    if (answer_socket(e, x, path)) {
        return true;
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const struct route *route = &routes[i];
        bool is_there = (!route->simulation || !o->production) && (!route->web || o->web);
        if (!is_there || !sv_eq(path, sv_from(route->path))) {
            continue;
        }
        if (is_method(route, exchange_head(x)->method)) {
            route->answer(e, x);
        } else {
            http_detail(x, 405, "Method Not Allowed");
        }
        return true;
    }
    return tasks_request(e, x, path);
}
