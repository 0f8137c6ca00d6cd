/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "net/http1_chars.h"
#include "net/http1_parse.h"

static int bad(struct http1_head_parser *p, const char *why, struct err *err) {
    return http1_refuse(p, 400, ERR_PROTOCOL, why, err);
}

/* Origin form, asterisk form of OPTIONS, or absolute form with a scheme that we could serve. */
static bool is_target(struct sv method, struct sv target) {
    if (!http1_is_target(target)) {
        return false;
    }
    if (target.p[0] == '/') {
        return true;
    }
    if (sv_eq(target, SV("*"))) {
        return sv_eq(method, SV("OPTIONS"));
    }
    struct sv http = {target.p, target.n < 7 ? target.n : 7};
    struct sv https = {target.p, target.n < 8 ? target.n : 8};
    size_t scheme = sv_eq_nocase(http, SV("http://"))     ? 7
                    : sv_eq_nocase(https, SV("https://")) ? 8
                                                          : target.n;
    return scheme < target.n && target.p[scheme] != '/' && target.p[scheme] != '?';
}

int http1_parse_request_line(struct http1_head_parser *p, struct sv line, struct http1_head *head,
                             struct err *err) {
    const char *first = memchr(line.p, ' ', line.n);
    if (!first) {
        return bad(p, "its first line is not 'METHOD target HTTP/1.1'", err);
    }
    head->method = (struct sv){line.p, (size_t)(first - line.p)};
    struct sv rest = sv_cut(line, head->method.n + 1);
    const char *second = memchr(rest.p, ' ', rest.n);
    if (!http1_is_token(head->method) || !second) {
        return bad(p, "its first line is not 'METHOD target HTTP/1.1'", err);
    }
    head->target = (struct sv){rest.p, (size_t)(second - rest.p)};
    int r = http1_parse_version(p, sv_cut(rest, head->target.n + 1), head, err);
    if (r < 0) {
        return r;
    }
    if (sv_eq(head->method, SV("CONNECT"))) {
        return http1_refuse(p, 501, ERR_UNSUPPORTED, "CONNECT is not served", err);
    }
    if (!is_target(head->method, head->target)) {
        return bad(p, "a target that is neither a path nor an http URL", err);
    }
    return 0;
}

static bool is_host(struct sv v) {
    static const char plain[] = "-._~%!$&'()*+;=:[]";
    for (size_t i = 0; i < v.n; i++) {
        char c = v.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && !memchr(plain, c, sizeof plain - 1)) {
            return false;
        }
    }
    return true;
}

int http1_check_request(struct http1_head_parser *p, const struct http1_head *head,
                        struct err *err) {
    int host = http1_find(head, SV("Host"), 0);
    if (host < 0 && head->minor == 1) {
        return bad(p, "no Host field", err);
    }
    if (host >= 0 && http1_find(head, SV("Host"), (size_t)host + 1) >= 0) {
        return bad(p, "more than one Host field", err);
    }
    if (host >= 0 && !is_host(http1_value(head, (size_t)host))) {
        return bad(p, "a Host that is no host", err);
    }
    int expect = http1_find(head, SV("Expect"), 0);
    if (expect >= 0 && !sv_eq_nocase(http1_value(head, (size_t)expect), SV("100-continue"))) {
        return http1_refuse(p, 417, ERR_UNSUPPORTED, "an Expect other than '100-continue'", err);
    }
    return 0;
}
