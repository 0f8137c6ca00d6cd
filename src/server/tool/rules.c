/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/rules.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/sv.h"

static const char *const kinds[] = {"upstream", "network", "backend", "image", "flavor"};

/* What follows "KIND=", or NULL. */
static const char *value_of(const char *rule, const char *kind) {
    size_t n = strlen(kind);
    return strncmp(rule, kind, n) == 0 && rule[n] == '=' ? rule + n + 1 : NULL;
}

static int check_rule(const char *rule, struct err *err) {
    const char *value = NULL;
    for (size_t i = 0; i < ARRAY_LEN(kinds) && !value; i++) {
        value = value_of(rule, kinds[i]);
    }
    if (!value || !*value) {
        return err_set(err, ERR_INPUT,
                       "--allow: want upstream=GLOB, network=full, backend=NAME, image=GLOB or "
                       "flavor=GLOB, got '%.200s'",
                       rule);
    }
    if (value_of(rule, "network") && strcmp(value, "full") != 0) {
        return err_set(err, ERR_INPUT, "--allow: network: want full, got '%.200s'", value);
    }
    return 0;
}

int rules_check(const char *const *allow, struct err *err) {
    int r = 0;
    for (; allow && *allow && r == 0; allow++) {
        r = check_rule(*allow, err);
    }
    return r;
}

bool rules_allow(const char *const *allow, const char *what, const char *value) {
    for (; allow && *allow; allow++) {
        const char *glob = value_of(*allow, what);
        if (glob && fnmatch(glob, value, 0) == 0) {
            return true;
        }
    }
    return false;
}

/* The parts of "[SCHEME://]HOST[:PORT][/PATH]"; empty ones were left out. */
struct pattern {
    struct sv scheme, host, port, path;
};

static struct pattern pattern_of(const char *text) {
    struct pattern p = {0};
    struct sv rest = sv_from(text);
    size_t at = sv_find(rest, SV("://"));
    if (at != (size_t)-1) {
        p.scheme = (struct sv){rest.p, at};
        rest = sv_cut(rest, at + 3);
    }
    at = sv_find(rest, SV("/"));
    if (at != (size_t)-1) {
        p.path = sv_cut(rest, at);
        rest.n = at;
    }
    bool is_ipv6 = sv_starts_with(rest, SV("["));
    size_t end = is_ipv6 ? sv_find(rest, SV("]")) : sv_find(rest, SV(":"));
    size_t port = is_ipv6 ? end + 1 : end;
    if (end == (size_t)-1) {
        p.host = rest;
        return p;
    }
    p.host = is_ipv6 ? (struct sv){rest.p + 1, end - 1} : (struct sv){rest.p, end};
    if (port < rest.n && rest.p[port] == ':') {
        p.port = sv_cut(rest, port + 1);
    }
    return p;
}

static bool part_matches(struct sv glob, const char *text, int flags) {
    AUTO_FREE char *copy = mem_strndup(glob.p, glob.n);
    return glob.n == 0 || (copy && fnmatch(copy, text, flags) == 0);
}

/* Without the slashes at its end. A path that may mean another one matches no pattern. */
static bool path_matches(struct sv glob, const char *path) {
    struct sv plain = sv_from(path);
    if (glob.n == 0) {
        return true;
    }
    if (strstr(path, "..") || strchr(path, '%') || strchr(path, '\\')) {
        return false;
    }
    while (plain.n > 0 && plain.p[plain.n - 1] == '/') {
        plain.n--;
    }
    while (glob.n > 0 && glob.p[glob.n - 1] == '/') {
        glob.n--;
    }
    AUTO_FREE char *copy = mem_strndup(plain.p, plain.n);
    return copy && part_matches(glob, copy, 0);
}

bool rules_allow_upstream(const char *const *allow, const struct url *u) {
    char port[8];
    snprintf(port, sizeof port, "%u", u->port);
    for (; allow && *allow; allow++) {
        const char *text = value_of(*allow, "upstream");
        struct pattern p = text ? pattern_of(text) : (struct pattern){0};
        if (text && p.host.n > 0 && part_matches(p.scheme, u->tls ? "https" : "http", 0) &&
            part_matches(p.host, u->host, FNM_CASEFOLD) && part_matches(p.port, port, 0) &&
            path_matches(p.path, u->path)) {
            return true;
        }
    }
    return false;
}
