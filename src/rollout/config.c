/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/config.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "gateway/profile.h"
#include "rollout/config_machine.h"

#define TIMEOUT_MS_MAX 86400000LL /* A day for one model call. */
#define AGENT_S_MAX 604800.0      /* A week, as for a task. */
#define TOP_LOGPROBS_MAX 20       /* What OpenAI's interface allows. */
#define TOKENS_MAX 100000000LL    /* No model has such a window. */
#define LOOP_CALLS_MAX 1000000.0  /* Of one body; nobody waits for so many. */
#define LOOP_S_MAX 86400.0        /* A day. */
#define NAMES_MAX 1000            /* Tools or variables in a list. */

const char *const config_fields[] = {"provider",
                                     "base_url",
                                     "api_key",
                                     "model",
                                     "request_timeout_ms",
                                     "opencode_version",
                                     "disabled_tools",
                                     "enabled_tools",
                                     "system_prompt",
                                     "extra_opencode_json",
                                     "run_format",
                                     "agent_timeout_s",
                                     "extra_env",
                                     "extra_setup_shell",
                                     "sandbox_home",
                                     "agent_cmd",
                                     "mounts",
                                     "rootfs",
                                     "capture",
                                     "public_url",
                                     "listen",
                                     "proxy_max_tokens_cap",
                                     "proxy_top_logprobs",
                                     "proxy_disable_thinking",
                                     "engine",
                                     "neutral_sampling",
                                     "policy_version",
                                     "loop_break_calls",
                                     "loop_break_s",
                                     "image",
                                     "flavor",
                                     "namespace",
                                     "agent_user",
                                     "env",
                                     "secrets",
                                     "volumes",
                                     "start_timeout_s",
                                     "forward_hf_token",
                                     NULL};

static const char *const providers[] = {"openai_compatible", "openai", "anthropic", NULL};
static const char *const run_formats[] = {"json", "default", NULL};
static const char *const captures[] = {"tunnel", "public", "sandbox", NULL};

/* ERR_INPUT unless the word is in the list. */
static int check_word(const char *where, const char *field, const char *word,
                      const char *const *known, const char *list, struct err *err) {
    for (const char *const *k = known; *k; k++) {
        if (strcmp(*k, word) == 0) {
            return 0;
        }
    }
    const char *near = json_nearest(word, known);
    return near ? err_set(err, ERR_INPUT, "%s: %s: unknown value '%s' (did you mean '%s'?)", where,
                          field, word, near)
                : err_set(err, ERR_INPUT, "%s: %s: unknown value '%s' (use %s)", where, field, word,
                          list);
}

static int check_range(const char *where, const char *field, double value, double min, double max,
                       struct err *err) {
    if (isfinite(value) && value >= min && value <= max) {
        return 0;
    }
    return err_set(err, ERR_INPUT, "%s: %s: want a number from %.15g to %.15g, got %.15g", where,
                   field, min, max, value);
}

/* A list of tools' names. */
static int check_names(const char *where, const char *field, const json_t *list, struct err *err) {
    size_t i;
    const json_t *name;
    if (!list) {
        return 0;
    }
    if (json_array_size(list) > NAMES_MAX) {
        return err_set(err, ERR_INPUT, "%s: %s: at most %d names", where, field, NAMES_MAX);
    }
    json_array_foreach(list, i, name) {
        if (!json_is_string(name) || json_string_length(name) == 0) {
            return err_set(err, ERR_INPUT, "%s: %s[%zu]: want a name, got %s", where, field, i,
                           json_is_string(name) ? "an empty string" : json_kind(name));
        }
    }
    return 0;
}

static int check_env(const char *where, const json_t *env, struct err *err) {
    const char *name;
    json_t *value;
    if (json_object_size(env) > NAMES_MAX) {
        return err_set(err, ERR_INPUT, "%s: extra_env: at most %d variables", where, NAMES_MAX);
    }
    json_object_foreach((json_t *)env, name, value) {
        if (!name[0] || strchr(name, '=')) {
            return err_set(err, ERR_INPUT, "%s: extra_env: '%s' is no name of a variable", where,
                           name);
        }
        if (!json_is_string(value)) {
            return err_set(err, ERR_INPUT, "%s: extra_env: %s: want a string, got %s", where, name,
                           json_kind(value));
        }
        if (strlen(json_string_value(value)) != json_string_length(value)) {
            return err_set(err, ERR_INPUT, "%s: extra_env: %s: a NUL is not allowed here", where,
                           name);
        }
    }
    return 0;
}

static int check_home(const char *where, const char *home, struct err *err) {
    size_t n = strlen(home);
    bool normal = home[0] == '/' && n > 1 && home[n - 1] != '/' && !strstr(home, "//") &&
                  !strstr(home, "/./") && !strstr(home, "/../");
    struct sv v = sv_from(home);
    if (normal && !sv_ends_with(v, SV("/.")) && !sv_ends_with(v, SV("/.."))) {
        return 0;
    }
    return err_set(err, ERR_INPUT,
                   "%s: sandbox_home: want an absolute, plain path such as '/home/user', got '%s'",
                   where, home);
}

static int read_strings(struct json_at at, struct agent_config *c, struct err *err) {
    const struct {
        const char *field;
        const char **out;
    } strings[] = {{"provider", &c->provider},
                   {"base_url", &c->base_url},
                   {"api_key", &c->api_key},
                   {"model", &c->model},
                   {"opencode_version", &c->opencode_version},
                   {"system_prompt", &c->system_prompt},
                   {"run_format", &c->run_format},
                   {"extra_setup_shell", &c->extra_setup_shell},
                   {"sandbox_home", &c->sandbox_home},
                   {"agent_cmd", &c->agent_cmd},
                   {"rootfs", &c->rootfs},
                   {"capture", &c->capture},
                   {"public_url", &c->public_url},
                   {"listen", &c->listen},
                   {"engine", &c->engine},
                   {"policy_version", &c->policy_version}};
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(strings) && r == 0; i++) {
        r = json_get_string(at, strings[i].field, strings[i].out, err);
    }
    return r;
}

static int read_numbers(struct json_at at, struct agent_config *c, struct err *err) {
    long long top = c->proxy_top_logprobs;
    int r = json_get_int(at, "request_timeout_ms", &c->request_timeout_ms, err);
    r = r < 0 ? r : json_get_number(at, "agent_timeout_s", &c->agent_timeout_s, err);
    r = r < 0 ? r : json_get_int(at, "proxy_top_logprobs", &top, err);
    r = r < 0 ? r : json_get_bool(at, "proxy_disable_thinking", &c->proxy_disable_thinking, err);
    const json_t *cap = json_object_get(at.object, "proxy_max_tokens_cap");
    if (r == 0 && json_is_null(cap)) {
        c->proxy_max_tokens_cap = 0;
    } else if (r == 0 && cap) {
        r = json_get_int(at, "proxy_max_tokens_cap", &c->proxy_max_tokens_cap, err);
        r = r < 0 ? r
                  : check_range(at.where, "proxy_max_tokens_cap", (double)c->proxy_max_tokens_cap,
                                1, (double)TOKENS_MAX, err);
    }
    r = r < 0 ? r
              : check_range(at.where, "request_timeout_ms", (double)c->request_timeout_ms, 1,
                            (double)TIMEOUT_MS_MAX, err);
    r = r < 0
            ? r
            : check_range(at.where, "agent_timeout_s", c->agent_timeout_s, 0.001, AGENT_S_MAX, err);
    r = r < 0 ? r
              : check_range(at.where, "proxy_top_logprobs", (double)top, 0, TOP_LOGPROBS_MAX, err);
    c->proxy_top_logprobs = (int)top;
    return r;
}

static int read_calls(struct json_at at, struct agent_config *c, struct err *err) {
    int r = json_get_bool(at, "neutral_sampling", &c->neutral_sampling, err);
    r = r < 0 ? r : json_get_int(at, "loop_break_calls", &c->loop_break_calls, err);
    r = r < 0 ? r : json_get_number(at, "loop_break_s", &c->loop_break_s, err);
    r = r < 0 ? r
              : check_range(at.where, "loop_break_calls", (double)c->loop_break_calls, 0,
                            LOOP_CALLS_MAX, err);
    return r < 0 ? r : check_range(at.where, "loop_break_s", c->loop_break_s, 1, LOOP_S_MAX, err);
}

static int read_objects(struct json_at at, struct agent_config *c, struct err *err) {
    int r = json_get_array(at, "disabled_tools", &c->disabled_tools, err);
    r = r < 0 ? r : json_get_array(at, "enabled_tools", &c->enabled_tools, err);
    r = r < 0 ? r : json_get_array(at, "mounts", &c->mounts, err);
    r = r < 0 ? r : json_get_object(at, "extra_opencode_json", &c->extra_opencode_json, err);
    r = r < 0 ? r : json_get_object(at, "extra_env", &c->extra_env, err);
    r = r < 0 ? r : check_names(at.where, "disabled_tools", c->disabled_tools, err);
    r = r < 0 ? r : check_names(at.where, "enabled_tools", c->enabled_tools, err);
    r = r < 0 ? r : check_names(at.where, "mounts", c->mounts, err);
    return r < 0 ? r : check_env(at.where, c->extra_env, err);
}

/* Reads the fields that are there over what *c holds. */
static int read_fields(struct json_at at, struct agent_config *c, struct err *err) {
    int r = json_check_fields(at, config_fields, err);
    r = r < 0 ? r : read_strings(at, c, err);
    r = r < 0 ? r : read_numbers(at, c, err);
    r = r < 0 ? r : read_calls(at, c, err);
    r = r < 0 ? r : read_objects(at, c, err);
    r = r < 0 ? r
              : check_word(at.where, "provider", c->provider, providers,
                           "openai_compatible, openai or anthropic", err);
    r = r < 0 ? r
              : check_word(at.where, "run_format", c->run_format, run_formats, "json or default",
                           err);
    if (r == 0 && c->capture) {
        r = check_word(at.where, "capture", c->capture, captures, "tunnel, public or sandbox", err);
    }
    r = r < 0 || !c->engine
            ? r
            : check_word(at.where, "engine", c->engine, profile_names,
                         "vllm, sglang, llama.cpp, openai, router or together", err);
    if (r == 0 && c->agent_cmd && !c->agent_cmd[strspn(c->agent_cmd, " \t\r\n")]) {
        return err_set(err, ERR_INPUT, "%s: agent_cmd: is empty", at.where);
    }
    return r < 0 ? r : check_home(at.where, c->sandbox_home, err);
}

static struct agent_config default_fields(const struct config_defaults *d) {
    return (struct agent_config){
        .provider = "openai_compatible",
        .api_key = "intercepted",
        .model = "intercepted/model",
        .request_timeout_ms = 600000,
        .opencode_version = d->agent_version,
        .run_format = "json",
        .agent_timeout_s = 900,
        .sandbox_home = d->sandbox_home ? d->sandbox_home : sandbox_local.home,
        .proxy_max_tokens_cap = 16384,
        .proxy_top_logprobs = 5,
        .loop_break_s = 60,
    };
}

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

/* Gives the lists and objects that no layer set, or that null put back, their defaults. */
static int fill_lists(json_t *merged, struct err *err) {
    AUTO_JSON json_t *defaults = json_pack("{s:[s,s], s:{}, s:{}}", "disabled_tools", "webfetch",
                                           "question", "extra_opencode_json", "extra_env");
    const char *field;
    json_t *value;
    if (!defaults) {
        return no_memory(err);
    }
    json_object_foreach(defaults, field, value) {
        const json_t *have = json_object_get(merged, field);
        if ((!have || json_is_null(have)) && json_object_set(merged, field, value) < 0) {
            return no_memory(err);
        }
    }
    return 0;
}

/* A mistake is named by the layer it stands in. */
static int check_layer(const struct config_layer *layer, struct err *err) {
    if (!json_is_object(layer->object)) {
        return err_set(err, ERR_INPUT, "%s: want an object with configuration fields, got %s",
                       layer->where, json_kind(layer->object));
    }
    struct agent_config scratch = default_fields(&(struct config_defaults){0});
    struct sandbox_machine machine = {0};
    struct json_at at = {layer->object, layer->where};
    int r = read_fields(at, &scratch, err);
    return r < 0 ? r : config_machine_read(at, &machine, err);
}

int config_load(const char *path, json_t **out, struct err *err) {
    AUTO_JSON json_t *value = NULL;
    int r = json_load(path, CONFIG_BYTES_MAX, &value, err);
    r = r < 0 ? r : check_layer(&(struct config_layer){value, path}, err);
    if (r == 0) {
        *out = TAKE(value);
    }
    return r;
}

static int merge_layer(json_t *merged, const struct config_layer *layer, struct err *err) {
    int r = check_layer(layer, err);
    if (r < 0) {
        return r;
    }
    /* A copy: what is merged in is shared, and changed by the next layer. */
    AUTO_JSON json_t *copy = json_deep_copy(layer->object);
    return copy && json_object_update_recursive(merged, copy) == 0 ? 0 : no_memory(err);
}

int config_build(const struct config_layer *layers, size_t n,
                 const struct config_defaults *defaults, struct config *out, struct err *err) {
    AUTO_JSON json_t *merged = json_object();
    int r = merged ? 0 : no_memory(err);
    for (size_t i = 0; i < n && r == 0; i++) {
        r = layers[i].object ? merge_layer(merged, &layers[i], err) : 0;
    }
    r = r < 0 ? r : fill_lists(merged, err);
    struct agent_config agent = default_fields(defaults);
    struct sandbox_machine machine = {0};
    struct json_at at = {merged, "configuration"};
    r = r < 0 ? r : read_fields(at, &agent, err);
    r = r < 0 ? r : config_machine_read(at, &machine, err);
    if (r == 0) {
        *out = (struct config){.agent = agent, .machine = machine, .merged = TAKE(merged)};
    }
    return r;
}

json_t *config_to_json(const struct config *c) {
    const struct agent_config *a = &c->agent;
    AUTO_JSON json_t *names = config_names_of(a->extra_env);
    AUTO_JSON json_t *cap =
        a->proxy_max_tokens_cap ? json_integer(a->proxy_max_tokens_cap) : json_null();
    if (!names || !cap) {
        return NULL;
    }
    AUTO_JSON json_t *all = json_pack(
        "{s:s, s:s?, s:s, s:I, s:s?, s:O, s:O?, s:s?, s:O, s:s, s:f, s:O, s:s?, s:s, "
        "s:s?, s:O?, s:s?, s:s?, s:s?, s:s?, "
        "s:O, s:i, s:b, s:s?, s:b, s:s?, s:I, s:f}",
        "provider", a->provider, "base_url", a->base_url, "model", a->model, "request_timeout_ms",
        (json_int_t)a->request_timeout_ms, "opencode_version", a->opencode_version,
        "disabled_tools", a->disabled_tools, "enabled_tools", a->enabled_tools, "system_prompt",
        a->system_prompt, "extra_opencode_json", a->extra_opencode_json, "run_format",
        a->run_format, "agent_timeout_s", a->agent_timeout_s, "extra_env_names", names,
        "extra_setup_shell", a->extra_setup_shell, "sandbox_home", a->sandbox_home, "agent_cmd",
        a->agent_cmd, "mounts", a->mounts, "rootfs", a->rootfs, "capture", a->capture, "public_url",
        a->public_url, "listen", a->listen, "proxy_max_tokens_cap", cap, "proxy_top_logprobs",
        a->proxy_top_logprobs, "proxy_disable_thinking", a->proxy_disable_thinking, "engine",
        a->engine, "neutral_sampling", a->neutral_sampling, "policy_version", a->policy_version,
        "loop_break_calls", (json_int_t)a->loop_break_calls, "loop_break_s", a->loop_break_s);
    return all && config_machine_put(&c->machine, all) == 0 ? TAKE(all) : NULL;
}

void config_deinit(struct config *c) {
    if (c) {
        json_decref(c->merged);
        *c = (struct config){0};
    }
}
