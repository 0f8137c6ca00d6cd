/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/tool_settings.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/url.h"
#include "store/store.h"

/* Each --allow. */
static const char **allow_rules(const struct args *a) {
    const char **rules = calloc(a->n_uses + 1, sizeof *rules);
    size_t n = 0;
    for (size_t i = 0; rules && i < a->n_uses; i++) {
        if (strcmp(a->uses[i].option->name, "allow") == 0) {
            rules[n++] = a->uses[i].text;
        }
    }
    return rules;
}

/* A key or a model belongs to an address; calls that name one of their own bring theirs. */
static int check_endpoint(const struct args *a, const struct endpoint_args *e, struct err *err) {
    const char *unused = args_has(a, "api-key-env") ? "--api-key-env"
                         : args_has(a, "model")     ? "--model"
                         : e->api_key               ? "--config: api_key"
                         : e->model                 ? "--config: model"
                                                    : NULL;
    struct url url = {0};
    if (e->api_key_env && !env_get(e->api_key_env)) {
        return err_set(err, ERR_USAGE, "--api-key-env: '%s' is not set", e->api_key_env);
    }
    if (e->base_url) {
        int r = url_parse(sv_from(e->base_url), &url, err);
        url_deinit(&url);
        return r < 0 ? err_wrap(err, "base_url") : 0;
    }
    return e->kind || !unused
               ? 0
               : err_set(err, ERR_USAGE,
                         "%s: %s is of the model's endpoint: give --base-url or --endpoint with "
                         "it%s",
                         a->command->name, unused,
                         option_find(a->command, "key-env")
                             ? " (--key-env names the key that clients must show)"
                             : "");
}

/* The endpoint's fields are told apart from the rest. */
static int read_config(const struct args *a, struct tool_settings *s, struct err *err) {
    static const char *const of_endpoint[] = {"base_url", "model", "api_key",
                                              "proxy_disable_thinking"};
    AUTO_JSON json_t *flags = NULL;
    struct config checked = {0};
    const char *path = args_text(a, "config");
    int r = path ? config_load(path, &s->file, err) : 0;
    r = r < 0 ? r : run_settings_flags(a, &flags, err);
    if (r < 0) {
        return r;
    }
    const struct config_layer layers[] = {{s->file, path}, {flags, "the command line"}};
    r = config_build(layers, ARRAY_LEN(layers), &(struct config_defaults){0}, &checked, err);
    config_deinit(&checked);
    if (r < 0) {
        return r;
    }
    s->config = s->file ? json_deep_copy(s->file) : json_object();
    if (!s->config || json_object_update_recursive(s->config, flags) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    s->options.endpoint = run_settings_endpoint(a, s->file, flags, &s->thinking_off);
    for (size_t i = 0; i < ARRAY_LEN(of_endpoint); i++) {
        (void)json_object_del(s->config, of_endpoint[i]);
    }
    return check_endpoint(a, &s->options.endpoint, err);
}

static int read_all(const struct args *a, struct tool_settings *s, struct err *err) {
    const char *run = args_text(a, "run");
    long long at_once = args_count(a, "max-concurrent", TOOL_CONCURRENT_DEFAULT);
    if (at_once < 1 || at_once > INT_MAX) {
        return err_set(err, ERR_USAGE, "%s: --max-concurrent: want 1 or more", a->command->name);
    }
    int r = run ? store_check_name("run", run, err) : 0;
    r = r < 0 ? r : read_config(a, s, err);
    s->allow = allow_rules(a);
    if (r == 0 && !s->allow) {
        r = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (r < 0) {
        return r;
    }
    run_settings_rollout(a, &s->rollout);
    run_settings_lay_over(a, &s->task);
    s->options.rollout = &s->rollout;
    s->options.config = s->config;
    s->options.task = &s->task;
    s->options.allow = s->allow;
    s->options.concurrent_max = (unsigned)at_once;
    return 0;
}

int tool_settings_read(const struct args *a, struct tool_settings *out, struct err *err) {
    *out = (struct tool_settings){0};
    int r = read_all(a, out, err);
    if (r < 0) {
        tool_settings_deinit(out);
    }
    return r;
}

void tool_settings_deinit(struct tool_settings *s) {
    json_decref(s->file);
    json_decref(s->config);
    free(s->allow);
    task_deinit(&s->task);
    *s = (struct tool_settings){0};
}
