/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/sv.h"

#define KEY_BYTES_MAX 8192   /* What servers take as one header, as a rule. */
#define NO_KEY "intercepted" /* What the reference sends where no key is asked for. */

const struct catalog_entry catalog[] = {
    {"vllm", "VLLM_URL", "VLLM_API_KEY", "VLLM_MODEL", NULL, NO_KEY, "Qwen/Qwen3.5-4B", true},
    {"openai", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "https://api.openai.com/v1",
     NULL, "gpt-4o-mini", false},
    {"hf_router", "HF_ROUTER_BASE_URL", "HF_ROUTER_API_KEY", "HF_ROUTER_MODEL",
     "https://router.huggingface.co/v1", NULL, "Qwen/Qwen3-4B-Instruct-2507:nscale", false},
    {0},
};

const char *const catalog_kinds[] = {"vllm", "openai", "hf_router", NULL};

/* A value and the words that say where it came from. */
struct found {
    const char *value; /* NULL: nowhere. */
    const char *from;
    const char *env; /* The variable, if it was one. */
};

static bool given(const char *s) {
    return s && s[0];
}

static struct found find(const char *argument, const char *env, const char *fallback) {
    if (given(argument)) {
        return (struct found){.value = argument, .from = "the argument"};
    }
    const char *value = env ? env_get(env) : NULL;
    if (value) {
        return (struct found){.value = value, .from = env, .env = env};
    }
    return (struct found){.value = fallback, .from = "the default"};
}

/* ERR_INPUT unless it is an http(s) address that a path can be appended to. The value is only
 * shown when it can hold no password. */
static int check_url(const char *prefix, struct found url, struct err *err) {
    struct sv v = sv_from(url.value);
    struct sv scheme = {v.p, v.n < 8 ? v.n : 8};
    size_t skip = 0;
    if (sv_eq_nocase(scheme, SV("https://"))) {
        skip = 8;
    } else if (v.n >= 7 && sv_eq_nocase((struct sv){v.p, 7}, SV("http://"))) {
        skip = 7;
    }
    size_t host = strcspn(v.p + skip, "/?#");
    if (memchr(v.p + skip, '@', host)) {
        return err_set(err, ERR_INPUT,
                       "%s: base_url from %s holds a user or password (give the key by "
                       "--api-key-env instead)",
                       prefix, url.from);
    }
    for (size_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.p[i];
        if (c <= ' ' || c >= 0x7f) {
            return err_set(err, ERR_INPUT,
                           "%s: base_url from %s holds a blank or a character that is not ASCII",
                           prefix, url.from);
        }
    }
    if (skip == 0 || host == 0 || strpbrk(v.p, "?#")) {
        return err_set(err, ERR_INPUT,
                       "%s: base_url '%s' from %s: want http://HOST[:PORT]/PATH or https://...",
                       prefix, url.value, url.from);
    }
    return 0;
}

static int check_key(const char *prefix, struct found key, struct err *err) {
    size_t n = strlen(key.value);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)key.value[i];
        if (c <= ' ' || c >= 0x7f) {
            return err_set(err, ERR_INPUT,
                           "%s: api_key from %s holds a blank, a line feed or a character that is "
                           "not ASCII (set it anew, without)",
                           prefix, key.from);
        }
    }
    if (n > KEY_BYTES_MAX) {
        return err_set(err, ERR_INPUT, "%s: api_key from %s is longer than %d bytes", prefix,
                       key.from, KEY_BYTES_MAX);
    }
    return 0;
}

static int check_model(const char *prefix, struct found model, struct err *err) {
    for (const char *p = model.value; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 0x7f) {
            return err_set(err, ERR_INPUT, "%s: model from %s holds a control character", prefix,
                           model.from);
        }
    }
    return 0;
}

/* Without slashes at the end, and with /v1. */
static char *with_v1(const char *url) {
    struct sv v = sv_from(url);
    while (v.n > 0 && v.p[v.n - 1] == '/') {
        v.n--;
    }
    return mem_printf("%.*s%s", SV_ARG(v), sv_ends_with(v, SV("/v1")) ? "" : "/v1");
}

static int missing(const char *prefix, const char *what, const char *env, const char *flag,
                   struct err *err) {
    if (env) {
        return err_set(err, ERR_INPUT, "%s: no %s (set %s or give %s)", prefix, what, env, flag);
    }
    return err_set(err, ERR_INPUT, "%s: no %s (give %s)", prefix, what, flag);
}

static int find_key(const char *prefix, const struct endpoint_args *args,
                    const struct catalog_entry *entry, struct found *out, struct err *err) {
    if (given(args->api_key_env)) {
        const char *value = env_get(args->api_key_env);
        if (!value) {
            return err_set(err, ERR_INPUT,
                           "%s: no api_key: the variable '%s' is not set (export it)", prefix,
                           args->api_key_env);
        }
        *out = (struct found){value, args->api_key_env, args->api_key_env};
    } else {
        *out = find(args->api_key, entry->api_key_env, entry->default_api_key);
    }
    return out->value ? check_key(prefix, *out, err)
                      : missing(prefix, "api_key", entry->api_key_env,
                                args->is_call ? "api_key" : "--api-key-env", err);
}

static const struct catalog_entry *find_kind(const char *kind) {
    for (const struct catalog_entry *e = catalog; e->kind; e++) {
        if (strcmp(e->kind, kind) == 0) {
            return e;
        }
    }
    return NULL;
}

static int resolve(const struct catalog_entry *entry, const struct endpoint_args *args,
                   struct endpoint *out, struct err *err) {
    const char *prefix = entry->kind ? entry->kind : "endpoint";
    struct found url = find(args->base_url, entry->base_url_env, entry->default_base_url);
    struct found model = find(args->model, entry->model_env, entry->default_model);
    struct found key = {0};
    int r = url.value ? check_url(prefix, url, err)
                      : missing(prefix, "base_url", entry->base_url_env,
                                args->is_call ? "base_url" : "--base-url", err);
    r = r < 0 ? r : find_key(prefix, args, entry, &key, err);
    if (r == 0) {
        r = model.value ? check_model(prefix, model, err)
                        : missing(prefix, "model", entry->model_env,
                                  args->is_call ? "model" : "--model", err);
    }
    if (r < 0) {
        return r;
    }
    *out = (struct endpoint){
        .kind = mem_strdup(entry->kind),
        .base_url = entry->kind ? with_v1(url.value) : mem_strdup(url.value),
        .api_key = mem_strdup(key.value),
        .key_name = mem_strdup(key.env),
        .model = mem_strdup(model.value),
        .disable_thinking =
            args->disable_thinking ? *args->disable_thinking : entry->disable_thinking,
    };
    if (!out->base_url || !out->api_key || !out->model || (entry->kind && !out->kind) ||
        (key.env && !out->key_name)) {
        endpoint_deinit(out);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

int endpoint_resolve(const struct endpoint_args *args, struct endpoint *out, struct err *err) {
    static const struct catalog_entry outright = {.default_api_key = NO_KEY};
    if (!given(args->kind)) {
        return resolve(&outright, args, out, err);
    }
    const struct catalog_entry *entry = find_kind(args->kind);
    if (!entry) {
        return err_set(err, ERR_INPUT,
                       "unknown endpoint kind: '%s' (use vllm, openai or hf_router)", args->kind);
    }
    return resolve(entry, args, out, err);
}

void endpoint_deinit(struct endpoint *e) {
    if (e->api_key) {
        explicit_bzero(e->api_key, strlen(e->api_key));
    }
    free(e->kind);
    free(e->base_url);
    free(e->api_key);
    free(e->key_name);
    free(e->model);
    *e = (struct endpoint){0};
}

static bool is_configured(const struct catalog_entry *e) {
    return (e->default_base_url || env_get(e->base_url_env)) &&
           (e->default_api_key || env_get(e->api_key_env)) &&
           (e->default_model || env_get(e->model_env));
}

json_t *catalog_summary(void) {
    json_t *all = json_array();
    for (const struct catalog_entry *e = catalog; e->kind; e++) {
        json_t *one = json_pack("{s:s, s:s, s:s, s:s, s:s?, s:s?, s:b, s:b}", "kind", e->kind,
                                "base_url_env", e->base_url_env, "api_key_env", e->api_key_env,
                                "model_env", e->model_env, "default_base_url", e->default_base_url,
                                "default_model", e->default_model, "disable_thinking_default",
                                e->disable_thinking, "configured", is_configured(e));
        if (!one || json_array_append_new(all, one) < 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}
