/* SPDX-License-Identifier: BSD-3-Clause */
/* Which request is for whom: the token in the path or the bearer key, then the path itself. */
#include "gateway/call.h"

static void reply_not_found(struct worker *w, struct exchange *x) {
    struct err e = {0};
    w->stats.refused++;
    err_set(&e, ERR_NOT_FOUND, "no such path: this is a model gateway, use /v1/chat/completions");
    exchange_reply_err(x, &e);
}

static void reply_unauthorized(struct worker *w, struct exchange *x) {
    w->stats.refused++;
    exchange_reply(x, 401, SV("application/json"),
                   SV("{\"error\":{\"message\":\"unknown api key\",\"type\":"
                      "\"invalid_request_error\",\"code\":\"invalid_api_key\"}}"));
}

static void reply_lacks_key(struct worker *w, struct exchange *x) {
    w->stats.refused++;
    exchange_reply(
        x, 401, SV("application/json"),
        SV("{\"error\":{\"message\":\"the gateway was started anew and does not know this "
           "session's key for its engine: its admin must give it again\",\"type\":"
           "\"invalid_request_error\",\"code\":\"invalid_api_key\"}}"));
}

static void reply_not_allowed(struct worker *w, struct exchange *x) {
    w->stats.refused++;
    exchange_reply(x, 405, SV("application/json"),
                   SV("{\"error\":{\"message\":\"method not allowed\",\"type\":"
                      "\"invalid_request_error\",\"code\":null}}"));
}

static struct sv shown_token(const struct exchange *x) {
    const struct http1_head *head = exchange_head(x);
    struct sv key = http1_shown_key(head);
    return key.n > 0 ? key : http1_get(head, SV("X-Goog-Api-Key"));
}

/* "/s/<token>/v1/models" gives the token, and leaves "/v1/models". */
static bool take_path_token(struct sv *path, struct sv *token) {
    struct sv prefix = SV("/s/");
    if (!sv_starts_with(*path, prefix)) {
        return false;
    }
    struct sv rest = sv_cut(*path, prefix.n);
    size_t slash = sv_find(rest, SV("/"));
    slash = slash == (size_t)-1 ? rest.n : slash;
    *token = (struct sv){rest.p, slash};
    *path = sv_cut(rest, slash);
    return true;
}

static void serve(struct worker *w, struct gateway_session *s, struct exchange *x, struct sv path) {
    struct sv method = exchange_head(x)->method;
    struct sv v1 = SV("/v1");
    if (sv_starts_with(path, SV("/v1/"))) {
        path = sv_cut(path, v1.n);
    }
    if (s->lacks_key) {
        reply_lacks_key(w, x);
    } else if (sv_eq(path, SV("/chat/completions"))) {
        if (sv_eq(method, SV("POST"))) {
            call_begin(w, s, x);
        } else {
            reply_not_allowed(w, x);
        }
    } else if (sv_eq(path, SV("/models"))) {
        if (sv_eq(method, SV("GET")) || sv_eq(method, SV("HEAD"))) {
            call_begin_models(w, s, x);
        } else {
            reply_not_allowed(w, x);
        }
    } else {
        reply_not_found(w, x);
    }
}

static bool is_health(struct exchange *x, struct sv path) {
    if (!sv_eq(path, SV("/healthz"))) {
        return false;
    }
    exchange_reply(x, 200, SV("application/json"), SV("{\"status\":\"ok\"}"));
    return true;
}

void route_unix(struct exchange *x, void *session) {
    struct gateway_session *s = session;
    struct sv path = exchange_path(x);
    struct sv token;
    if (!is_health(x, path)) {
        (void)take_path_token(&path, &token); /* The socket itself says who it is. */
        serve(s->worker, s, x, path);
    }
}

/* Leaves the path behind the token. */
static struct gateway_session *find_session(struct worker *w, struct exchange *x, struct sv *path) {
    struct sv token = {0};
    if (!take_path_token(path, &token)) {
        token = shown_token(x);
    }
    return session_find(w->gateway, token);
}

size_t route_body_max(struct exchange *x, void *worker) {
    const struct gateway *g = ((const struct worker *)worker)->gateway;
    size_t most = g->body_max_of ? g->body_max_of(x, g->hooks_arg) : SIZE_MAX;
    struct sv path = exchange_path(x);
    return most < SIZE_MAX ? most : find_session(worker, x, &path) ? SERVER_BODY_MAX : 0;
}

void route_tcp(struct exchange *x, void *worker) {
    struct worker *w = worker;
    const struct gateway *g = w->gateway;
    struct sv path = exchange_path(x);
    if ((g->on_request && g->on_request(x, g->hooks_arg)) || is_health(x, path)) {
        return;
    }
    struct gateway_session *s = find_session(w, x, &path);
    if (s) {
        serve(w, s, x, path);
    } else {
        reply_unauthorized(w, x);
    }
}
