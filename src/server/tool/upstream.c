/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/upstream.h"

#include <netdb.h>
#include <string.h>

#include "base/env.h"
#include "net/off_limits.h"
#include "net/url.h"
#include "server/tool/rules.h"

#define AUTO_URL __attribute__((cleanup(url_deinit)))

static bool given(const char *text) {
    return text && *text;
}

int upstream_check_host(const char *host, struct err *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0) {
        return err_set(err, ERR_INPUT, "base_url: cannot resolve '%s': %s", host,
                       gai_strerror(code));
    }
    bool bad = false;
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        bad = bad || address_is_off_limits(a->ai_addr);
    }
    freeaddrinfo(found);
    return bad ? err_set(err, ERR_DENIED,
                         "base_url: '%s' is a link-local address or one of a cloud's own, which no "
                         "call may name",
                         host)
               : 0;
}

/* Scheme, host and port are the same: the same server. */
static bool same_server(const struct url *u, const char *text) {
    AUTO_URL struct url other = {0};
    return given(text) && url_parse(sv_from(text), &other, NULL) == 0 && other.tls == u->tls &&
           other.port == u->port && strcmp(other.host, u->host) == 0;
}

static const char *address_of(const struct catalog_entry *e) {
    const char *value = env_get(e->base_url_env);
    return value ? value : e->default_base_url;
}

static const struct catalog_entry *entry_of(const char *kind) {
    for (const struct catalog_entry *e = catalog; given(kind) && e->kind; e++) {
        if (strcmp(e->kind, kind) == 0) {
            return e;
        }
    }
    return NULL;
}

static bool in_catalog(const struct url *u) {
    for (const struct catalog_entry *e = catalog; e->kind; e++) {
        if (same_server(u, address_of(e))) {
            return true;
        }
    }
    return false;
}

static int check_allowed(const struct tool_options *o, const struct url *u, bool allowed,
                         struct err *err) {
    int r = upstream_check_host(u->host, err);
    if (r < 0 || !o->is_public || allowed || in_catalog(u) ||
        same_server(u, o->endpoint.base_url)) {
        return r;
    }
    return err_set(err, ERR_DENIED,
                   "base_url: the server '%s' is not allowed here (its operator allows it with "
                   "--allow 'upstream=%s')",
                   u->host, u->host);
}

/* The call names an address of its own, beside a kind or without one. */
static int choose_own(const struct tool_options *o, const struct upstream_asked *asked,
                      struct endpoint *out, struct err *err) {
    AUTO_URL struct url u = {0};
    int r = url_parse(sv_from(asked->base_url), &u, err);
    if (r < 0) {
        return err_wrap(err, "base_url");
    }
    bool allowed = rules_allow_upstream(o->allow, &u);
    r = check_allowed(o, &u, allowed, err);
    if (r < 0) {
        return r;
    }
    const struct catalog_entry *e = entry_of(asked->endpoint);
    struct endpoint_args args = {.kind = asked->endpoint,
                                 .base_url = asked->base_url,
                                 .api_key = asked->api_key,
                                 .model = asked->model,
                                 .is_call = true,
                                 .disable_thinking = asked->disable_thinking
                                                         ? asked->disable_thinking
                                                         : o->endpoint.disable_thinking};
    if (e && !given(asked->api_key) && !allowed && !same_server(&u, address_of(e))) {
        if (!e->default_api_key) {
            return err_set(err, ERR_INPUT,
                           "api_key: the server's own key for '%s' goes to its own address only "
                           "(give the key for '%s')",
                           e->kind, u.host);
        }
        args.api_key = e->default_api_key;
    }
    return endpoint_resolve(&args, out, err);
}

int upstream_choose(const struct tool_options *o, const struct upstream_asked *asked,
                    struct endpoint *out, struct err *err) {
    if (given(asked->base_url)) {
        return choose_own(o, asked, out, err);
    }
    struct endpoint_args args = {.kind = asked->endpoint,
                                 .disable_thinking = o->endpoint.disable_thinking};
    bool is_operators = !given(asked->endpoint) ||
                        (o->endpoint.kind && strcmp(asked->endpoint, o->endpoint.kind) == 0);
    if (is_operators) {
        args = o->endpoint;
    }
    args.is_call = true;
    if (!given(args.kind) && !given(args.base_url)) {
        return err_set(err, ERR_INPUT,
                       "which model? give endpoint (vllm, openai or hf_router), or base_url, "
                       "api_key and model");
    }
    if (given(asked->api_key)) {
        args.api_key = asked->api_key;
        args.api_key_env = NULL;
    }
    args.model = given(asked->model) ? asked->model : args.model;
    args.disable_thinking =
        asked->disable_thinking ? asked->disable_thinking : args.disable_thinking;
    return endpoint_resolve(&args, out, err);
}
