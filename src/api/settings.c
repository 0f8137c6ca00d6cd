/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* The words of an option that is a choice; the first is the default. */
static int choose(const char *name, const char *word, const char *const *words, struct err *err) {
    if (!word || !*word) {
        return 0;
    }
    for (int i = 0; words[i]; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    return err_set(err, ERR_INPUT, "options: %s: '%s' is not known (use %s or %s)", name, word,
                   words[0], words[1]);
}

static const char *first(const char *a, const char *b) {
    return a && *a ? a : b;
}

static const char *text_in(const json_t *object, const char *field) {
    return json_string_value(json_object_get(object, field));
}

static int make_endpoint(struct settings *s, const snaffle_options *o, const json_t *layer,
                         struct err *err) {
    const json_t *thinking = json_object_get(layer, "proxy_disable_thinking");
    bool disable = json_is_true(thinking);
    struct endpoint_args args = {
        .kind = o->endpoint,
        .base_url = first(o->base_url, text_in(layer, "base_url")),
        .api_key = first(o->api_key, o->api_key_env ? NULL : text_in(layer, "api_key")),
        .api_key_env = o->api_key_env,
        .model = first(o->model, text_in(layer, "model")),
        .disable_thinking = json_is_boolean(thinking) ? &disable : NULL,
    };
    int r = endpoint_resolve(&args, &s->endpoint, err);
    if (r < 0) {
        return r;
    }
    s->config.agent.base_url = s->endpoint.base_url;
    s->config.agent.api_key = s->endpoint.api_key;
    s->config.agent.model = s->endpoint.model;
    s->config.agent.proxy_disable_thinking = s->endpoint.disable_thinking;
    return 0;
}

static int make_config(struct settings *s, const snaffle_options *o, struct err *err) {
    AUTO_JSON json_t *layer = NULL;
    if (o->config_json) {
        int r = json_parse(sv_from(o->config_json), "config_json", &layer, err);
        if (r < 0) {
            return r;
        }
    }
    const struct agent *agent = agent_find(first(o->agent, "opencode"));
    const struct sandbox_backend *backend = sandbox_backend_find(first(o->backend, "local"));
    const struct config_defaults defaults = {agent ? agent->default_version : NULL,
                                             backend ? backend->home : NULL};
    int r = config_build(&(struct config_layer){.object = layer, .where = "config_json"}, 1,
                         &defaults, &s->config, err);
    return r < 0 ? r : make_endpoint(s, o, layer, err);
}

static struct rollout_limits limits_of(const snaffle_options *o) {
    return (struct rollout_limits){
        .create_s = o->create_s,
        .install_s = o->install_s,
        .setup_s = o->setup_s,
        .agent_s = o->agent_s,
        .verify_command_s = o->verify_command_s,
        .verify_s = o->verify_s,
        .budget_s = o->budget_s,
        .upstream_down_s = o->upstream_down_s,
    };
}

/* Strings that the factory keeps and that have no other owner. */
static int keep_strings(struct settings *s, const snaffle_options *o, struct err *err) {
    s->runs_dir = mem_strdup(o->runs_dir);
    s->run = mem_strdup(o->run);
    if ((o->runs_dir && !s->runs_dir) || (o->run && !s->run)) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

int settings_make(struct settings *s, const snaffle_options *o, struct err *err) {
    static const char *const modes[] = {"black_box", "transparent_proxy", NULL};
    static const char *const verify_ins[] = {"same", "fresh", NULL};
    static const char *const verify_ons[] = {"always", "clean", NULL};
    int mode = choose("mode", o->mode, modes, err);
    int verify_on = mode < 0 ? mode : choose("verify_on", o->verify_on, verify_ons, err);
    int verify_in = verify_on < 0 ? verify_on : choose("verify_in", o->verify_in, verify_ins, err);
    if (verify_in < 0) {
        return verify_in;
    }
    int r = make_config(s, o, err);
    if (r < 0) {
        return r;
    }
    s->options = (struct rollout_options){
        .backend = o->backend, /* Borrowed: the factory looks both up at once. */
        .agent = o->agent,
        .mode = (enum rollout_mode)mode,
        .config = &s->config.agent,
        .machine = &s->config.machine,
        .key_name = s->endpoint.key_name,
        .keep_raw = o->keep_raw != 0,
        .durable = o->durable != 0,
        .strict = o->strict != 0,
        .require_calls = o->require_calls != 0,
        .setup_offline = o->setup_offline != 0,
        .logprobs_processed = o->logprobs_processed != 0,
        .neutral_sampling = o->neutral_sampling != 0,
        .verify_on = (enum rollout_verify_on)verify_on,
        .verify_in = (enum rollout_verify_in)verify_in,
        .create_attempts = o->create_attempts,
        .create_backoff_s = o->create_backoff_s,
        .retries = o->retries,
        .limits = limits_of(o),
    };
    r = keep_strings(s, o, err);
    s->options.runs_dir = s->runs_dir;
    s->options.run = s->run;
    return r;
}

void settings_deinit(struct settings *s) {
    config_deinit(&s->config);
    endpoint_deinit(&s->endpoint);
    free(TAKE(s->runs_dir));
    free(TAKE(s->run));
}
