/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "agent/opencode.h"
#include "base/json.h"
#include "base/mem.h"

/* OpenCode asks for this many tokens of itself at most, whatever the model's limit says. */
#define OUTPUT_TOKENS_MAX 32000
/* Where the endpoint does not tell: most served models have it or more; compaction needs some
 * value, and an engine with less says so in an error that starts compaction too. */
#define CONTEXT_TOKENS_UNKNOWN 131072

/* The name under the provider: what follows the first slash. */
static const char *model_name(const struct agent_config *config) {
    const char *slash = strchr(config->model, '/');
    return slash && slash[1] ? slash + 1 : config->model;
}

/* What one answer may take: the cap, but no more than a quarter of a known window. */
static long long output_tokens(const struct agent_config *config, const struct agent_job *job) {
    long long n = OUTPUT_TOKENS_MAX;
    if (config->proxy_max_tokens_cap > 0 && config->proxy_max_tokens_cap < n) {
        n = config->proxy_max_tokens_cap;
    }
    if (job->context_tokens > 0 && job->context_tokens / 4 < n) {
        n = job->context_tokens / 4;
    }
    return n > 0 ? n : 1;
}

static json_t *models(const struct agent_config *config, const struct agent_job *job) {
    const char *name = model_name(config);
    long long context = job->context_tokens > 0 ? job->context_tokens : CONTEXT_TOKENS_UNKNOWN;
    return json_pack("{s:{s:s, s:{s:I, s:I}}}", name, "name", name, "limit", "context",
                     (json_int_t)context, "output", (json_int_t)output_tokens(config, job));
}

static json_t *time_limit(const struct agent_config *config) {
    return config->request_timeout_ms > 0 ? json_integer(config->request_timeout_ms) : json_false();
}

/* A provider of its own, so that no well-known variable or stored login can redirect a call. */
static json_t *provider(const struct agent_config *config, const struct agent_job *job) {
    return json_pack("{s:{s:s, s:s, s:{s:s, s:s, s:o, s:o, s:o}, s:o}}", "intercepted", "npm",
                     "@ai-sdk/openai-compatible", "name", "Intercepted", "options", "baseURL",
                     job->base_url, "apiKey", job->api_key, "timeout", time_limit(config),
                     "headerTimeout", time_limit(config), "chunkTimeout", time_limit(config),
                     "models", models(config, job));
}

/* Nobody is there to answer: what asks must go through, and what can only ask must be gone. */
static json_t *permission(void) {
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "external_directory", "allow", "doom_loop",
                     "allow", "question", "deny", "plan_enter", "deny", "plan_exit", "deny");
}

/* Project configuration is ignored, and these files with it; but they are part of the task. */
static json_t *instructions(const struct agent_config *config) {
    AUTO_FREE char *agents = mem_printf("%s%s/AGENTS.md", config->sandbox_home, OPENCODE_WORKDIR);
    AUTO_FREE char *claude = mem_printf("%s%s/CLAUDE.md", config->sandbox_home, OPENCODE_WORKDIR);
    return json_pack("[s, s]", agents, claude);
}

/* The main agent's own prompt gives way to it. OpenCode reads the file, trims it, and takes it as
 * it is: no variable is replaced in it. */
static int add_system_prompt(const struct agent_config *config, json_t *agents) {
    if (!config->system_prompt || !*config->system_prompt) {
        return 0;
    }
    AUTO_FREE char *text = mem_printf("{file:%s%s}", config->sandbox_home, OPENCODE_SYSTEM_FILE);
    return json_object_set_new(agents, "build", json_pack("{s:s}", "prompt", text));
}

/* A whitelist that names `task` would let sub-agents start sub-agents without end. */
static int stop_nesting(json_t *agents) {
    static const char *const names[] = {"general", "explore"};
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(names) && r == 0; i++) {
        r = json_object_set_new(agents, names[i],
                                json_pack("{s:{s:s}}", "permission", "task", "deny"));
    }
    return r;
}

/* NULL: no memory. */
static json_t *agents(const struct agent_config *config) {
    AUTO_JSON json_t *out = json_object();
    if (add_system_prompt(config, out) < 0 || stop_nesting(out) < 0) {
        return NULL;
    }
    return TAKE(out);
}

/* Lays the user's own settings over ours; lists of instructions are joined, as OpenCode does. */
static int merge_extra(json_t *ours, const json_t *extra) {
    const json_t *more = json_object_get(extra, "instructions");
    AUTO_JSON json_t *all = json_deep_copy(json_object_get(ours, "instructions"));
    AUTO_JSON json_t *copy = json_deep_copy(extra);
    if (!copy || json_object_update_recursive(ours, copy) < 0) {
        return ERR_NOMEM;
    }
    if (!json_is_array(more)) {
        return 0;
    }
    return json_array_extend(all, (json_t *)more) < 0 ||
                   json_object_set(ours, "instructions", all) < 0
               ? ERR_NOMEM
               : 0;
}

int opencode_config_build(const struct agent_config *config, const struct agent_job *job,
                          const json_t *tools, json_t **out, struct err *err) {
    AUTO_FREE char *model = mem_printf("intercepted/%s", model_name(config));
    AUTO_JSON json_t *value = json_pack(
        "{s:s, s:s, s:s, s:b, s:s, s:b, s:o, s:O, s:o, s:o, s:o}", "$schema",
        "https://opencode.ai/config.json", "model", model, "small_model", model, "autoupdate", 0,
        "share", "disabled", "snapshot", 0, "provider", provider(config, job), "tools", tools,
        "permission", permission(), "instructions", instructions(config), "agent", agents(config));
    if (!value) {
        return err_set(err, ERR_INPUT, "model, base_url and api_key: want UTF-8 text");
    }
    if (config->extra_opencode_json && !json_is_object(config->extra_opencode_json)) {
        return err_set(err, ERR_INPUT, "extra_opencode_json: want an object, got %s",
                       json_kind(config->extra_opencode_json));
    }
    if (config->extra_opencode_json && merge_extra(value, config->extra_opencode_json) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = TAKE(value);
    return 0;
}
