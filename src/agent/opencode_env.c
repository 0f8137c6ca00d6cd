/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <string.h>

#include "agent/opencode.h"
#include "base/json.h"
#include "base/mem.h"

/* Each of these was measured to shorten the start or to keep the network quiet. */
static const char *const switches[] = {
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_FFF", /* The file finder's index. */
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_PROJECT_CONFIG", /* The task's repository must not steer the harness. */
    "OPENCODE_DISABLE_SHARE",
    "OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER",
};

/* A proxy hides the loopback address from OpenCode: it waits silently and makes no call. */
static const char *const proxies[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};

static bool is_name(const char *name) {
    if (!*name || isdigit((unsigned char)*name)) {
        return false;
    }
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && *name != '_') {
            return false;
        }
    }
    return true;
}

static bool is_proxy(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(proxies); i++) {
        if (strcasecmp(proxies[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int add_one(struct agent_plan *p, const char *name, const json_t *value, struct err *err) {
    if (!is_name(name)) {
        return err_set(err, ERR_INPUT, "extra_env: '%s' is no name of a variable", name);
    }
    if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value)) {
        return err_set(err, ERR_INPUT, "extra_env: %s: want a string, got %s", name,
                       json_is_string(value) ? "one with a NUL" : json_kind(value));
    }
    if (is_proxy(name)) {
        return err_set(err, ERR_INPUT,
                       "extra_env: '%s' would hide the model from opencode (remove it)", name);
    }
    /* Programs that the agent starts would take these for a model of theirs and be recorded. */
    if (strncmp(name, "OPENAI_", strlen("OPENAI_")) == 0) {
        return 0;
    }
    return plan_set_env(p, name, json_string_value(value), err);
}

static int add_extra(struct agent_plan *p, const json_t *extra, struct err *err) {
    if (extra && !json_is_object(extra)) {
        return err_set(err, ERR_INPUT, "extra_env: want an object, got %s", json_kind(extra));
    }
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)extra, name, value) {
        TRY(add_one(p, name, value, err));
    }
    return 0;
}

static int set_home_path(struct agent_plan *p, const char *name, const char *home, const char *rest,
                         struct err *err) {
    AUTO_FREE char *path = mem_printf("%s%s", home, rest);
    return path ? plan_set_env(p, name, path, err) : err_set(err, ERR_NOMEM, "out of memory");
}

static int set_search_path(struct agent_plan *p, const char *home, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s/.opencode/bin:%s/.local/bin:/usr/local/sbin:"
                                      "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                      home, home);
    return path ? plan_set_env(p, "PATH", path, err) : err_set(err, ERR_NOMEM, "out of memory");
}

int opencode_env_build(const struct agent_config *config, const struct agent_job *job, bool plugins,
                       struct agent_plan *p, struct err *err) {
    const char *home = config->sandbox_home;
    TRY(set_search_path(p, home, err));
    TRY(plan_set_env(p, "LANG", "C.UTF-8", err));
    TRY(plan_set_env(p, "TERM", "dumb", err));
    TRY(plan_set_env(p, "SHELL", "/bin/bash", err));
    TRY(add_extra(p, config->extra_env, err));
    TRY(plan_set_env(p, "HOME", home, err));
    TRY(set_home_path(p, "OPENCODE_CONFIG", home, OPENCODE_CONFIG_FILE, err));
    TRY(set_home_path(p, "OPENCODE_MODELS_PATH", home, OPENCODE_CATALOGUE_FILE, err));
    for (size_t i = 0; i < ARRAY_LEN(switches); i++) {
        TRY(plan_set_env(p, switches[i], "1", err));
    }
    if (!plugins) {
        TRY(plan_set_env(p, "OPENCODE_PURE", "1", err));
    }
    return plan_set_deadline(p, job->deadline_unix, err);
}
