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

static struct sv cut_at(struct sv *left, struct sv mark) {
    size_t end = sv_find(*left, mark);
    struct sv first = end == (size_t)-1 ? *left : (struct sv){left->p, end};
    *left = end == (size_t)-1 ? (struct sv){0} : sv_cut(*left, end + mark.n);
    return first;
}

char *sbx_query(const struct exchange *x, const char *name) {
    struct sv left = exchange_query(x);
    char *found = NULL;
    while (left.n > 0) {
        struct sv value = cut_at(&left, SV("&"));
        struct sv raw_name = cut_at(&value, SV("="));
        AUTO_FREE char *field = decoded(raw_name);
        if (field && strcmp(field, name) == 0) {
            free(found);
            found = decoded(value);
        }
    }
    return found;
}

static bool has_token(const struct sbx *s, const struct exchange *x) {
    return sv_eq(http1_get(exchange_head(x), SV("X-Sandbox-Token")), sv_from(s->token));
}

static bool is_health(const struct exchange *x) {
    return sv_eq(exchange_head(x)->method, SV("GET")) && sv_eq(exchange_path(x), SV("/health"));
}

static void health(const struct sbx *s, struct exchange *x) {
    json_t *o = json_pack("{s:s}", "status", "ok");
    bool knows = has_token(s, x);
    if (s->protocol == 1 || knows) {
        json_object_set_new(o, "version", json_string(s->protocol == 1 ? "0.5.0" : "0.6.0"));
        json_object_set_new(o, "uptime_ms", json_integer(clock_ms() - s->started_ms));
        json_object_set_new(o, "sandboxes", json_integer(0));
    }
    if (s->protocol > 1) {
        json_object_set_new(o, "protocol", json_integer(s->protocol));
    }
    if (s->protocol > 1 && knows) {
        json_object_set_new(o, "mode", json_string("dedicated"));
        json_object_set_new(o, "auth", json_string("required"));
        json_object_set_new(o, "landlock", json_pack("{s:i, s:[]}", "abi", 0, "features"));
    }
    sbx_reply(x, 200, o);
}

/* The path without slashes at its ends; the routes go by this, messages by the path as it came. */
static struct sv trimmed(struct sv path) {
    while (sv_starts_with(path, SV("/"))) {
        path = sv_cut(path, 1);
    }
    while (sv_ends_with(path, SV("/"))) {
        path.n--;
    }
    return path;
}

void sbx_no_route(const struct sbx *s, struct exchange *x) {
    struct sv method = exchange_head(x)->method;
    struct sv path = exchange_path(x);
    struct sv rest = trimmed(path);
    bool pools = s->protocol > 1 && sv_eq(cut_at(&rest, SV("/")), SV("v1")) &&
                 sv_eq(cut_at(&rest, SV("/")), SV("sandboxes"));
    sbx_fail(x, 404, "no route%s: %.*s %.*s", pools ? " in this server mode" : "", SV_ARG(method),
             SV_ARG(path));
}

/* Gives what follows `prefix` in the path, cut at the next slash or whole. */
static bool under(struct sv path, struct sv prefix, struct sv *rest) {
    bool is = sv_eq(path, prefix);
    if (!is && !(sv_starts_with(path, prefix) && path.p[prefix.n] == '/')) {
        return false;
    }
    *rest = is ? (struct sv){0} : sv_cut(path, prefix.n + 1);
    return true;
}

static void route(struct sbx *s, struct exchange *x) {
    struct sv path = trimmed(exchange_path(x));
    bool posts = sv_eq(exchange_head(x)->method, SV("POST"));
    struct sv rest;
    if (sv_eq(path, SV("v1/exec")) && posts) {
        sbx_exec(s, x);
    } else if (under(path, SV("v1/processes"), &rest)) {
        sbx_processes(s, x, rest);
    } else if (under(path, SV("v1/files"), &rest)) {
        sbx_files(s, x, rest);
    } else if (under(path, SV("v1/proxy"), &rest)) {
        sbx_proxy(s, x, rest);
    } else {
        sbx_no_route(s, x);
    }
}

static bool is_refused_whole(const struct sbx *s, const struct exchange *x) {
    const struct http1_head *head = exchange_head(x);
    return head->chunked || !has_token(s, x) || is_health(x);
}

static bool is_too_long(const struct exchange *x) {
    const struct http1_head *head = exchange_head(x);
    struct sv path = trimmed(exchange_path(x));
    return (sv_eq(path, SV("v1/exec")) || sv_eq(path, SV("v1/processes"))) &&
           sv_eq(head->method, SV("POST")) && head->content_length > SBX_COMMAND_MAX;
}

size_t sbx_body_max(struct exchange *x, void *arg) {
    return is_refused_whole(arg, x) || is_too_long(x) ? 0 : SERVER_BODY_MAX;
}

void sbx_on_request(struct exchange *x, void *arg) {
    struct sbx *s = arg;
    bool chunked = exchange_head(x)->chunked;
    bool early = chunked && s->protocol == 1; /* Before the token, and /health. */
    if (!early && is_health(x)) {
        health(s, x);
    } else if (!early && !has_token(s, x)) {
        sbx_fail(x, 403, "invalid or missing X-Sandbox-Token");
    } else if (chunked) {
        sbx_fail(x, 411, "chunked request bodies not supported; send Content-Length");
    } else if (is_too_long(x)) {
        exchange_cut(x, EXCHANGE_CUT_FIN);
    } else {
        s->active_ms = clock_ms();
        route(s, x);
    }
}
