/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/hub/sbx.h"

void sbx_reply(struct exchange *x, int status, json_t *value) {
    char *text = json_dumps(value, JSON_SORT_KEYS | JSON_COMPACT);
    exchange_reply(x, status, SV("application/json"), sv_from(text));
    free(text);
    json_decref(value);
}

void sbx_fail(struct exchange *x, int status, const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    sbx_reply(x, status, json_pack("{s:o}", "error", json_text(sv_from(text))));
}

static int hex(char c) {
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c | ('A' <= c && c <= 'Z' ? 0x20 : 0)) : NULL;
    return at ? (int)(at - digits) : -1;
}

static char *decoded(struct sv v) {
    char *out = malloc(v.n + 1);
    size_t n = 0;
    for (size_t i = 0; out && i < v.n; i++) {
        if (v.p[i] == '%' && i + 2 < v.n && hex(v.p[i + 1]) >= 0 && hex(v.p[i + 2]) >= 0) {
            out[n++] = (char)(hex(v.p[i + 1]) * 16 + hex(v.p[i + 2]));
            i += 2;
        } else {
            out[n++] = v.p[i] == '+' ? ' ' : v.p[i];
        }
    }
    if (out) {
        out[n] = '\0';
    }
    return out;
}

char *sbx_query(const struct exchange *x, const char *name) {
    struct sv left = exchange_query(x);
    struct sv want = sv_from(name);
    while (left.n > 0) {
        size_t end = sv_find(left, SV("&"));
        struct sv field = end == (size_t)-1 ? left : (struct sv){left.p, end};
        if (sv_starts_with(field, want) && field.n > want.n && field.p[want.n] == '=') {
            return decoded(sv_cut(field, want.n + 1));
        }
        left = end == (size_t)-1 ? (struct sv){0} : sv_cut(left, end + 1);
    }
    return NULL;
}

static bool has_token(const struct sbx *s, const struct exchange *x) {
    return sv_eq(http1_get(exchange_head(x), SV("X-Sandbox-Token")), sv_from(s->token));
}

static void health(const struct sbx *s, struct exchange *x) {
    json_t *o = json_pack("{s:s}", "status", "ok");
    if (s->protocol == 1 || has_token(s, x)) {
        json_object_set_new(o, "version", json_string(s->protocol == 1 ? "0.5.0" : "0.6.0"));
        json_object_set_new(o, "uptime_ms", json_integer(clock_ms() - s->started_ms));
        json_object_set_new(o, "sandboxes", json_integer(0));
    }
    if (s->protocol > 1) {
        json_object_set_new(o, "protocol", json_integer(s->protocol));
    }
    sbx_reply(x, 200, o);
}

/* Gives what follows `prefix` in the path. */
static bool under(struct sv path, struct sv prefix, struct sv *rest) {
    if (!sv_starts_with(path, prefix)) {
        return false;
    }
    *rest = sv_cut(path, prefix.n);
    return true;
}

static void route(struct sbx *s, struct exchange *x) {
    struct sv path = exchange_path(x);
    struct sv rest;
    while (sv_ends_with(path, SV("/"))) {
        path.n--;
    }
    if (sv_eq(path, SV("/v1/exec"))) {
        sbx_exec(s, x);
    } else if (sv_eq(path, SV("/v1/processes"))) {
        sbx_processes(s, x, (struct sv){0});
    } else if (under(path, SV("/v1/processes/"), &rest)) {
        sbx_processes(s, x, rest);
    } else if (under(path, SV("/v1/files/"), &rest)) {
        sbx_files(s, x, rest);
    } else if (under(path, SV("/v1/proxy/"), &rest)) {
        sbx_proxy(s, x, rest);
    } else {
        struct sv method = exchange_head(x)->method;
        sbx_fail(x, 404, "no route: %.*s %.*s", SV_ARG(method), SV_ARG(path));
    }
}

void sbx_on_request(struct exchange *x, void *arg) {
    struct sbx *s = arg;
    bool chunked = exchange_head(x)->chunked;
    if (sv_eq(exchange_path(x), SV("/health"))) {
        health(s, x);
    } else if (chunked && s->protocol == 1) {
        sbx_fail(x, 411, "Content-Length required");
    } else if (!has_token(s, x)) {
        sbx_fail(x, 403, "invalid or missing X-Sandbox-Token");
    } else if (chunked) {
        sbx_fail(x, 411, "Content-Length required");
    } else {
        s->active_ms = clock_ms();
        route(s, x);
    }
}
