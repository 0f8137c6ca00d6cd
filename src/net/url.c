/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/url.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define HOST_MAX 253u /* A DNS name's greatest length. */

static int bad(struct err *err, const char *why) {
    return err_set(err, ERR_INPUT, "bad URL: %s", why);
}

static int take_scheme(struct sv *rest, struct url *u, struct err *err) {
    size_t n = sv_find(*rest, SV("://"));
    struct sv scheme = {rest->p, n == (size_t)-1 ? 0 : n};
    if (sv_eq_nocase(scheme, SV("https"))) {
        u->tls = true;
    } else if (!sv_eq_nocase(scheme, SV("http"))) {
        return bad(err, "it must start with 'http://' or 'https://'");
    }
    *rest = sv_cut(*rest, n + 3);
    return 0;
}

/* Cuts what stands before the first of `stops`. */
static struct sv take_until(struct sv *rest, const char *stops) {
    size_t n = 0;
    while (n < rest->n && !strchr(stops, rest->p[n])) {
        n++;
    }
    struct sv front = {rest->p, n};
    *rest = sv_cut(*rest, n);
    return front;
}

static bool is_host_name(struct sv v) {
    if (v.n == 0 || v.n > HOST_MAX || v.p[0] == '.' || v.p[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < v.n; i++) {
        char c = v.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && c != '-' && c != '_' && (c != '.' || (i > 0 && v.p[i - 1] == '.'))) {
            return false;
        }
    }
    return true;
}

static int take_ipv6(struct sv *authority, struct url *u, struct err *err) {
    size_t close = sv_find(*authority, SV("]"));
    if (close == (size_t)-1) {
        return bad(err, "a '[' without ']'");
    }
    u->host = mem_strndup(authority->p + 1, close - 1);
    if (!u->host) {
        return err_set(err, ERR_NOMEM, "no memory for a URL");
    }
    struct in6_addr addr;
    if (inet_pton(AF_INET6, u->host, &addr) != 1) {
        return err_set(err, ERR_INPUT, "bad URL: '%s' is no IPv6 address", u->host);
    }
    u->is_ipv6 = true;
    *authority = sv_cut(*authority, close + 1);
    return 0;
}

static int take_host(struct sv *authority, struct url *u, struct err *err) {
    if (authority->n > 0 && authority->p[0] == '[') {
        return take_ipv6(authority, u, err);
    }
    struct sv host = take_until(authority, ":");
    if (!is_host_name(host)) {
        return bad(err, host.n ? "its host is no host name" : "it has no host");
    }
    u->host = mem_strndup(host.p, host.n);
    if (!u->host) {
        return err_set(err, ERR_NOMEM, "no memory for a URL");
    }
    for (char *c = u->host; *c; c++) {
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c | 0x20) : *c;
    }
    return 0;
}

static int take_port(struct sv authority, struct url *u, struct err *err) {
    u->port = u->tls ? 443 : 80;
    if (authority.n == 0) {
        return 0;
    }
    unsigned long long port = 0;
    if (authority.p[0] != ':' || !sv_parse_u64(sv_cut(authority, 1), UINT16_MAX, &port) ||
        port == 0) {
        return bad(err, "its port is not between 1 and 65535");
    }
    u->port = (uint16_t)port;
    return 0;
}

static int parse_authority(struct sv authority, struct url *u, struct err *err) {
    if (sv_find(authority, SV("@")) != (size_t)-1) {
        return bad(err, "it holds a user or password; give the key by its own setting");
    }
    int r = take_host(&authority, u, err);
    return r < 0 ? r : take_port(authority, u, err);
}

static int parse(struct sv text, struct url *u, struct err *err) {
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] <= ' ' || text.p[i] == 0x7f || text.p[i] == '\\') {
            return bad(err, "a blank, backslash, control or non-ASCII character in it");
        }
    }
    int r = take_scheme(&text, u, err);
    if (r < 0) {
        return r;
    }
    r = parse_authority(take_until(&text, "/?#"), u, err);
    if (r < 0) {
        return r;
    }
    struct sv path = take_until(&text, "?#");
    struct sv query = take_until(&text, "#");
    if (text.n > 0) {
        return bad(err, "a '#' in it; a base URL has no fragment");
    }
    query = sv_cut(query, 1);
    u->path = mem_strndup(path.p, path.n);
    u->query = mem_strndup(query.p, query.n);
    return u->path && u->query ? 0 : err_set(err, ERR_NOMEM, "no memory for a URL");
}

int url_parse(struct sv text, struct url *out, struct err *err) {
    struct url u = {0};
    int r = parse(text, &u, err);
    if (r < 0) {
        url_deinit(&u);
        return r;
    }
    *out = u;
    return 0;
}

void url_deinit(struct url *u) {
    free(u->host);
    free(u->path);
    free(u->query);
    *u = (struct url){0};
}

int url_join(const struct url *u, struct sv route, struct buf *out) {
    struct sv base = sv_from(u->path);
    while (base.n > 0 && base.p[base.n - 1] == '/') {
        base.n--;
    }
    while (route.n > 0 && route.p[0] == '/') {
        route = sv_cut(route, 1);
    }
    int r = buf_add_sv(out, base);
    r = r < 0 ? r : buf_addc(out, '/');
    r = r < 0 ? r : buf_add_sv(out, route);
    if (r == 0 && u->query && *u->query) {
        char mark = sv_find(route, SV("?")) == (size_t)-1 ? '?' : '&';
        r = buf_addf(out, "%c%s", mark, u->query);
    }
    return r;
}

int url_put_host(const struct url *u, struct buf *out) {
    int r = buf_addf(out, u->is_ipv6 ? "[%s]" : "%s", u->host);
    if (r == 0 && u->port != (u->tls ? 443 : 80)) {
        r = buf_addf(out, ":%u", (unsigned)u->port);
    }
    return r;
}
