/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/settings.h"

/* How the text of a flag becomes the value of the configuration's field. */
enum flag_form {
    FORM_TEXT,
    FORM_INTEGER,
    FORM_CAP, /* 0 stands for null: no cap. */
    FORM_NUMBER,
    FORM_BOOL,
    FORM_SWITCH, /* There: true. */
    FORM_LIST,   /* Commas between. */
    FORM_JSON,
    FORM_PAIRS, /* NAME=VALUE, again and again. */
    FORM_TEXTS, /* Likewise, each a text of its own. */
    FORM_OWN,   /* Likewise: NAMEs of our environment, which has their values. */
};

struct flag {
    const char *name;  /* of the option */
    const char *field; /* of the configuration */
    enum flag_form form;
};

/* base_url, model and api_key are the endpoint's matter: see settings.c. */
static const struct flag flags[] = {
    {"provider", "provider", FORM_TEXT},
    {"request-timeout-ms", "request_timeout_ms", FORM_INTEGER},
    {"opencode-version", "opencode_version", FORM_TEXT},
    {"disabled-tools", "disabled_tools", FORM_LIST},
    {"enabled-tools", "enabled_tools", FORM_LIST},
    {"system-prompt", "system_prompt", FORM_TEXT},
    {"extra-opencode-json", "extra_opencode_json", FORM_JSON},
    {"run-format", "run_format", FORM_TEXT},
    {"agent-timeout-s", "agent_timeout_s", FORM_NUMBER},
    {"extra-env", "extra_env", FORM_PAIRS},
    {"extra-setup-shell", "extra_setup_shell", FORM_TEXT},
    {"sandbox-home", "sandbox_home", FORM_TEXT},
    {"agent-cmd", "agent_cmd", FORM_TEXT},
    {"mount", "mounts", FORM_TEXTS},
    {"rootfs", "rootfs", FORM_TEXT},
    {"capture", "capture", FORM_TEXT},
    {"public-url", "public_url", FORM_TEXT},
    {"listen", "listen", FORM_TEXT},
    {"proxy-max-tokens-cap", "proxy_max_tokens_cap", FORM_CAP},
    {"proxy-top-logprobs", "proxy_top_logprobs", FORM_INTEGER},
    {"proxy-disable-thinking", "proxy_disable_thinking", FORM_BOOL},
    {"engine", "engine", FORM_TEXT},
    {"neutral-sampling", "neutral_sampling", FORM_SWITCH},
    {"policy-version", "policy_version", FORM_TEXT},
    {"loop-break", "loop_break_calls", FORM_INTEGER},
    {"loop-break-s", "loop_break_s", FORM_NUMBER},
    {"image", "image", FORM_TEXT},
    {"flavor", "flavor", FORM_TEXT},
    {"namespace", "namespace", FORM_TEXT},
    {"agent-user", "agent_user", FORM_TEXT},
    {"env", "env", FORM_PAIRS},
    {"secret", "secrets", FORM_OWN},
    {"volume", "volumes", FORM_TEXTS},
    {"start-timeout-s", "start_timeout_s", FORM_NUMBER},
    {"forward-hf-token", "forward_hf_token", FORM_SWITCH},
};

static json_t *list_from(const char *text) {
    AUTO_JSON json_t *list = json_array();
    struct sv rest = sv_from(text);
    while (rest.n > 0) {
        size_t n = sv_find(rest, SV(","));
        n = n == (size_t)-1 ? rest.n : n;
        struct sv word = sv_trim((struct sv){rest.p, n});
        if (word.n > 0 && json_array_append_new(list, json_text(word)) < 0) {
            return NULL;
        }
        rest = sv_cut(rest, n < rest.n ? n + 1 : n);
    }
    return TAKE(list);
}

static int pairs_from(const struct args *a, const char *name, json_t **out, struct err *err) {
    AUTO_JSON json_t *object = json_object();
    for (size_t i = 0; i < a->n_uses; i++) {
        const char *text = a->uses[i].text;
        if (strcmp(a->uses[i].option->name, name) != 0) {
            continue;
        }
        const char *equals = strchr(text, '=');
        if (!equals || equals == text) {
            return err_set(err, ERR_USAGE, "%s: --%s: want NAME=VALUE, got '%s'", a->command->name,
                           name, text);
        }
        AUTO_FREE char *key = mem_strndup(text, (size_t)(equals - text));
        if (!key || json_object_set_new(object, key, json_text(sv_from(equals + 1))) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    *out = TAKE(object);
    return 0;
}

/* So a secret stands in no argument, which others see. */
static int own_from(const struct args *a, const char *name, json_t **out, struct err *err) {
    AUTO_JSON json_t *object = json_object();
    for (size_t i = 0; i < a->n_uses; i++) {
        const char *variable = a->uses[i].text;
        if (strcmp(a->uses[i].option->name, name) != 0) {
            continue;
        }
        const char *value = strchr(variable, '=') ? NULL : env_get(variable);
        if (!value) {
            return err_set(err, ERR_USAGE, "%s: --%s: no variable of that name is set here: '%.*s'",
                           a->command->name, name, (int)strcspn(variable, "="), variable);
        }
        if (json_object_set_new(object, variable, json_text(sv_from(value))) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    *out = TAKE(object);
    return 0;
}

/* NULL: no memory. */
static json_t *texts_from(const struct args *a, const char *name) {
    AUTO_JSON json_t *list = json_array();
    for (size_t i = 0; i < a->n_uses; i++) {
        if (strcmp(a->uses[i].option->name, name) == 0 &&
            json_array_append_new(list, json_text(sv_from(a->uses[i].text))) < 0) {
            return NULL;
        }
    }
    return TAKE(list);
}

static int value_of(const struct args *a, const struct flag *f, json_t **out, struct err *err) {
    const char *text = args_text(a, f->name);
    AUTO_FREE char *where = NULL;
    long long whole = 0;
    switch (f->form) {
    case FORM_TEXT:
        *out = json_text(sv_from(text));
        break;
    case FORM_INTEGER:
    case FORM_CAP:
        whole = args_count(a, f->name, 0);
        *out = f->form == FORM_CAP && whole == 0 ? json_null() : json_integer(whole);
        break;
    case FORM_NUMBER:
        *out = json_real(args_number(a, f->name, 0));
        break;
    case FORM_BOOL:
        *out = json_boolean(strcmp(text, "true") == 0);
        break;
    case FORM_SWITCH:
        *out = json_true();
        break;
    case FORM_LIST:
        *out = list_from(text);
        break;
    case FORM_JSON:
        where = mem_printf("--%s", f->name);
        return where ? json_parse(sv_from(text), where, out, err)
                     : err_set(err, ERR_NOMEM, "out of memory");
    case FORM_PAIRS:
        return pairs_from(a, f->name, out, err);
    case FORM_OWN:
        return own_from(a, f->name, out, err);
    case FORM_TEXTS:
        *out = texts_from(a, f->name);
        break;
    }
    return *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int run_settings_flags(const struct args *a, json_t **out, struct err *err) {
    AUTO_JSON json_t *object = json_object();
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        json_t *value = NULL;
        if (!args_has(a, flags[i].name)) {
            continue;
        }
        int r = value_of(a, &flags[i], &value, err);
        if (r < 0) {
            return r;
        }
        if (json_object_set_new(object, flags[i].field, value) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    *out = TAKE(object);
    return 0;
}
