/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/access.h"

#define KEY_PREFIX SV("/k/")

/* "host:8000" and "[::1]:8000" without the port; an address of version 6 has its brackets then. */
static struct sv without_port(struct sv v) {
    size_t end = v.n;
    while (end > 0 && v.p[end - 1] >= '0' && v.p[end - 1] <= '9') {
        end--;
    }
    bool has_port = end > 0 && v.p[end - 1] == ':' && end < v.n;
    bool is_v6 = v.n > 0 && v.p[0] == '[';
    bool is_bare_v6 = !is_v6 && has_port && sv_find((struct sv){v.p, end - 1}, SV(":")) < end - 1;
    return has_port && !is_bare_v6 ? (struct sv){v.p, end - 1} : v;
}

/* "127." and nothing but an address behind it: a name may begin so too. */
static bool is_127(struct sv host) {
    bool is_address = sv_starts_with(host, SV("127."));
    for (size_t i = 0; i < host.n; i++) {
        is_address = is_address && (host.p[i] == '.' || (host.p[i] >= '0' && host.p[i] <= '9'));
    }
    return is_address;
}

bool access_is_loopback(struct sv host) {
    host = without_port(host);
    return sv_eq_nocase(host, SV("localhost")) || sv_eq(host, SV("::1")) ||
           sv_eq(host, SV("[::1]")) || is_127(host);
}

/*
 * A page that was loaded from elsewhere is told by its Origin. One whose name was bound to a
 * loopback address afterwards has the same name in Host, so a name that is not loopback's does not
 * do on loopback without a key.
 */
static bool is_good_origin(const struct access *a, const struct exchange *x) {
    const struct http1_head *head = exchange_head(x);
    struct sv origin = http1_get(head, SV("Origin"));
    size_t at = sv_find(origin, SV("://"));
    if (!origin.p) {
        return true;
    }
    struct sv host = at == (size_t)-1 ? (struct sv){0} : sv_cut(origin, at + 3);
    if (access_is_loopback(host)) {
        return true;
    }
    return (a->is_public || a->key) && host.n > 0 &&
           sv_eq_nocase(host, http1_get(head, SV("Host")));
}

/* Takes "/k/<key>" off *path; false: it has none. */
static bool cut_prefix(struct sv *path, struct sv *key) {
    if (!sv_starts_with(*path, KEY_PREFIX)) {
        return false;
    }
    struct sv rest = sv_cut(*path, KEY_PREFIX.n);
    size_t slash = sv_find(rest, SV("/"));
    *key = (struct sv){rest.p, slash == (size_t)-1 ? rest.n : slash};
    *path = sv_cut(rest, key->n);
    return true;
}

enum access_verdict access_judge(const struct access *a, const struct exchange *x,
                                 struct sv *path) {
    struct sv prefix = {0};
    *path = exchange_path(x);
    bool has_prefix = a->key && cut_prefix(path, &prefix);
    if (!is_good_origin(a, x)) {
        return ACCESS_BAD_ORIGIN;
    }
    struct sv shown = has_prefix ? prefix : http1_shown_key(exchange_head(x));
    /* Whoever watches a container asks that, and learns no more than that it lives. */
    bool needs_none = !a->key || (!has_prefix && sv_eq(*path, SV("/health")));
    return needs_none || sv_eq_constant_time(sv_from(a->key), shown) ? ACCESS_GRANTED
                                                                     : ACCESS_NO_KEY;
}
