/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/arguments.h"

#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/budget.h"
#include "sandbox/local.h"
#include "server/tool/rules.h"
#include "server/tool/upstream.h"

#define MAX_TOKENS_CAP 4096 /* As the reference's tool; lower than the configuration's default. */
#define TOP_LOGPROBS 5
#define TOKENS_CAP_MAX 100000000 /* These two as the configuration has them. */
#define TOP_LOGPROBS_MAX 20

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

static int check_names(struct json_at at, struct err *err) {
    const char *known[64] = {0};
    for (size_t i = 0; argument_table[i].name; i++) {
        BUG_IF(i + 1 >= ARRAY_LEN(known));
        known[i] = argument_table[i].name;
    }
    return json_check_fields(at, known, err);
}

/* NULL when it is missing, null or empty. */
static int text_of(struct json_at at, const char *name, const char **out, struct err *err) {
    *out = NULL;
    int r = json_get_string(at, name, out, err);
    if (r == 0 && *out && !**out) {
        *out = NULL;
    }
    return r;
}

/* The part that a task is made of, by the task's own reader. */
static int read_task(struct json_at at, struct tool_request *q, struct err *err) {
    static const char *const fields[] = {"instruction", "setup",   "verify",
                                         "task_id",     "network", "limits"};
    AUTO_JSON json_t *task = json_object();
    for (size_t i = 0; task && i < ARRAY_LEN(fields); i++) {
        json_t *value = json_object_get(at.object, fields[i]);
        bool empty = json_is_string(value) && json_string_length(value) == 0;
        if (value && !empty && json_object_set(task, fields[i], value) < 0) {
            return no_memory(err);
        }
    }
    return task ? task_from_json(task, at.where, NULL, &q->task, err) : no_memory(err);
}

/* What the operator set stands in for what the call left out. */
static void fill_task(const struct task *operators, struct task *t) {
    for (int i = 0; operators && i < TASK_PHASES; i++) {
        if (!t->network[i].given && operators->network[i].given) {
            t->network[i] = operators->network[i];
        }
    }
    const struct task_limits *from = operators ? &operators->limits : NULL;
    struct task_limits *to = &t->limits;
    if (from) {
        to->setup_s = to->setup_s > 0 ? to->setup_s : from->setup_s;
        to->verify_s = to->verify_s > 0 ? to->verify_s : from->verify_s;
        to->memory_mb = to->memory_mb > 0 ? to->memory_mb : from->memory_mb;
        to->processes = to->processes > 0 ? to->processes : from->processes;
        to->disk_mb = to->disk_mb > 0 ? to->disk_mb : from->disk_mb;
    }
}

/* A wider network than the phase has by itself, or by the operator's word, needs his leave. */
static int check_network(const struct tool_options *o, const struct task *t, struct err *err) {
    for (int i = TASK_AGENT; i < TASK_PHASES; i++) {
        bool operators = o->task && o->task->network[i].given &&
                         o->task->network[i].word == SANDBOX_NETWORK_FULL;
        if (t->network[i].given && t->network[i].word == SANDBOX_NETWORK_FULL && !operators &&
            !rules_allow(o->allow, "network", "full")) {
            return err_set(err, ERR_DENIED,
                           "network: 'full' for agent or verify is not allowed here (the server's "
                           "operator allows it with --allow network=full)");
        }
    }
    return 0;
}

/* `operators`: what he set; 0: nothing. */
static int check_limit(const struct tool_options *o, const char *name, long asked, long operators,
                       long otherwise, struct err *err) {
    long most = operators > 0 ? operators : otherwise;
    if (!o->is_public || asked <= most) {
        return 0;
    }
    return err_set(err, ERR_DENIED, "limits: %s: at most %ld on this server, got %ld", name, most,
                   asked);
}

static int check_limits(const struct tool_options *o, const struct task *t, struct err *err) {
    struct task_limits none = {0};
    const struct task_limits *most = o->task ? &o->task->limits : &none;
    const struct task_limits *l = &t->limits;
    int r =
        check_limit(o, "memory_mb", l->memory_mb, most->memory_mb, LOCAL_MEMORY_MB_DEFAULT, err);
    r = r < 0 ? r
              : check_limit(o, "processes", l->processes, most->processes, LOCAL_PROCESSES_DEFAULT,
                            err);
    return r < 0 ? r
                 : check_limit(o, "disk_mb", l->disk_mb, most->disk_mb, LOCAL_DISK_MB_DEFAULT, err);
}

static int check_number(const char *where, const char *name, double value, double min, double max,
                        struct err *err) {
    return isfinite(value) && value >= min && value <= max
               ? 0
               : err_set(err, ERR_INPUT, "%s: %s: want a number from %.15g to %.15g, got %.15g",
                         where, name, min, max, value);
}

json_t *argument_defaults(const struct tool_options *o) {
    double agent_s =
        o->task && o->task->limits.agent_s > 0 ? o->task->limits.agent_s : ARGUMENT_AGENT_S;
    AUTO_JSON json_t *defaults =
        json_pack("{s:i, s:i, s:f}", "proxy_max_tokens_cap", MAX_TOKENS_CAP, "proxy_top_logprobs",
                  TOP_LOGPROBS, "agent_timeout_s", agent_s);
    const char *name;
    json_t *value;
    json_object_foreach(defaults, name, value) {
        json_t *operators = json_object_get(o->config, name);
        if (operators && json_object_set(defaults, name, operators) < 0) {
            return NULL;
        }
    }
    return TAKE(defaults);
}

/* A number that the call gives goes into its layer under the configuration's name. */
static int layer_number(struct json_at at, const char *name, const char *field, double min,
                        double max, json_t *layer, struct err *err) {
    json_t *value = json_object_get(at.object, name);
    double number = 0;
    if (!value || json_is_null(value)) {
        return 0;
    }
    int r = json_get_number(at, name, &number, err);
    r = r < 0 ? r : check_number(at.where, name, number, min, max, err);
    return r < 0 ? r : json_object_set(layer, field, value) < 0 ? no_memory(err) : 0;
}

static int layer_text(struct json_at at, const char *name, json_t *layer, struct err *err) {
    const char *text = NULL;
    int r = text_of(at, name, &text, err);
    return r == 0 && text && json_object_set_new(layer, name, json_string(text)) < 0
               ? no_memory(err)
               : r;
}

/* The call's own layer over the operator's configuration. */
static int layer_of(struct json_at at, json_t *layer, struct err *err) {
    long long whole = 0;
    int r = json_get_int(at, "max_tokens_cap", &whole, err);
    r = r < 0 ? r : json_get_int(at, "top_logprobs", &whole, err);
    r = r < 0 ? r
              : layer_number(at, "max_tokens_cap", "proxy_max_tokens_cap", 1, TOKENS_CAP_MAX, layer,
                             err);
    r = r < 0 ? r
              : layer_number(at, "top_logprobs", "proxy_top_logprobs", 0, TOP_LOGPROBS_MAX, layer,
                             err);
    r = r < 0 ? r
              : layer_number(at, "agent_timeout_s", "agent_timeout_s", 0.001, TASK_SECONDS_MAX,
                             layer, err);
    r = r < 0 ? r : layer_text(at, "sandbox_home", layer, err);
    r = r < 0 ? r : layer_text(at, "image", layer, err);
    r = r < 0 ? r : layer_text(at, "flavor", layer, err);
    r = r < 0 ? r : layer_text(at, "capture", layer, err);
    bool no_cap = json_is_null(json_object_get(at.object, "max_tokens_cap"));
    if (r == 0 && no_cap && json_object_set_new(layer, "proxy_max_tokens_cap", json_null()) < 0) {
        return no_memory(err);
    }
    return r;
}

static int read_endpoint(struct json_at at, const struct tool_options *o, struct tool_request *q,
                         struct err *err) {
    struct upstream_asked asked = {0};
    const json_t *thinking = json_object_get(at.object, "disable_thinking");
    bool off = false;
    int r = text_of(at, "endpoint", &asked.endpoint, err);
    r = r < 0 ? r : text_of(at, "base_url", &asked.base_url, err);
    r = r < 0 ? r : text_of(at, "api_key", &asked.api_key, err);
    r = r < 0 ? r : text_of(at, "model", &asked.model, err);
    r = r < 0 ? r : json_get_bool(at, "disable_thinking", &off, err);
    asked.disable_thinking = json_is_boolean(thinking) ? &off : NULL;
    return r < 0 ? r : upstream_choose(o, &asked, &q->endpoint, err);
}

static int read_config(struct json_at at, const struct tool_options *o, struct tool_request *q,
                       struct err *err) {
    AUTO_JSON json_t *defaults = argument_defaults(o);
    AUTO_JSON json_t *own = json_object();
    int r = defaults && own ? layer_of(at, own, err) : no_memory(err);
    if (r < 0) {
        return r;
    }
    const struct agent *agent = agent_find(q->options.agent ? q->options.agent : "opencode");
    const struct config_layer layers[] = {{defaults, "the tool's defaults"},
                                          {o->config, "the server's configuration"},
                                          {own, at.where}};
    const char *name = q->options.backend ? q->options.backend : "local";
    const struct sandbox_backend *backend =
        q->options.using ? q->options.using : sandbox_backend_find(name);
    const struct config_defaults fixed = {agent ? agent->default_version : NULL,
                                          backend ? backend->home : NULL};
    r = config_build(layers, ARRAY_LEN(layers), &fixed, &q->config, err);
    r = r < 0 ? r : read_endpoint(at, o, q, err);
    if (r == 0) {
        q->config.agent.public_url = NULL; /* Of the gateway that all calls share. */
        q->config.agent.listen = NULL;
        q->config.agent.base_url = q->endpoint.base_url;
        q->config.agent.api_key = q->endpoint.api_key;
        q->config.agent.model = q->endpoint.model;
        q->config.agent.proxy_disable_thinking = q->endpoint.disable_thinking;
    }
    return r;
}

static int check_word(const char *where, const char *name, const char *word,
                      const char *const *known, struct err *err) {
    for (const char *const *k = known; word && *k; k++) {
        if (strcmp(*k, word) == 0) {
            return 0;
        }
    }
    const char *near = word ? json_nearest(word, known) : NULL;
    AUTO_BUF struct buf all = {0};
    for (size_t i = 0; word && known[i]; i++) {
        const char *between = i == 0 ? "" : known[i + 1] ? ", " : " or ";
        if (buf_addf(&all, "%s%s", between, known[i]) < 0) {
            return no_memory(err);
        }
    }
    return !word  ? 0
           : near ? err_set(err, ERR_INPUT, "%s: %s: '%.100s' is not known (did you mean '%s'?)",
                            where, name, word, near)
                  : err_set(err, ERR_INPUT, "%s: %s: '%.100s' is not known (use %s)", where, name,
                            word, buf_cstr(&all));
}

/* A backend that the operator did not choose needs his leave. */
static int read_backend(struct json_at at, const struct tool_options *o, struct tool_request *q,
                        struct err *err) {
    const char *name = NULL;
    const char *own = o->rollout->backend ? o->rollout->backend : "local";
    int r = text_of(at, "backend", &name, err);
    r = r < 0 ? r : check_word(at.where, "backend", name, sandbox_backend_names, err);
    if (r < 0 || !name || strcmp(name, own) == 0) {
        return r;
    }
    if (!rules_allow(o->allow, "backend", name)) {
        return err_set(err, ERR_DENIED,
                       "backend: '%s' is not allowed here (the server's operator allows it with "
                       "--allow backend=%s)",
                       name, name);
    }
    q->options.backend = name;
    q->options.using = NULL;
    return 0;
}

static int check_allowed(const struct tool_options *o, const char *what, const char *value,
                         struct err *err) {
    if (!value || rules_allow(o->allow, what, value)) {
        return 0;
    }
    return err_set(err, ERR_DENIED,
                   "%s: '%s' is not allowed here (the server's operator allows it with --allow "
                   "%s=GLOB)",
                   what, value, what);
}

/* Both cost the operator money, or are a stranger's. A template is passed over, as the reference's
 * clients send one whatever the backend. */
static int read_machine(struct json_at at, const struct tool_options *o, struct tool_request *q,
                        struct err *err) {
    const char *backend = q->options.backend ? q->options.backend : "local";
    const char *image = NULL;
    const char *flavor = NULL;
    const char *template = NULL;
    int r = text_of(at, "image", &image, err);
    r = r < 0 ? r : text_of(at, "flavor", &flavor, err);
    r = r < 0 ? r : text_of(at, "template", &template, err);
    q->ignored_template = template != NULL;
    r = r < 0 ? r : check_allowed(o, "image", image, err);
    r = r < 0 ? r : check_allowed(o, "flavor", flavor, err);
    if (r < 0 || (!image && !flavor) || strcmp(backend, "local") != 0) {
        return r;
    }
    return err_set(err, ERR_UNSUPPORTED, "%s: the backend '%s' takes none (leave it out)",
                   image ? "image" : "flavor", backend);
}

static int check_capture(const struct tool_options *o, const char *way, struct err *err) {
    const char *address = json_string_value(json_object_get(o->config, "public_url"));
    if (address || !way || strcmp(way, "public") != 0) {
        return 0;
    }
    return err_set(err, ERR_DENIED,
                   "capture: 'public' is not offered here (the server's operator gives the address "
                   "at which sandboxes reach its gateway with --public-url)");
}

static int read_words(struct json_at at, const struct tool_options *o, struct tool_request *q,
                      struct err *err) {
    static const char *const modes[] = {"transparent_proxy", "black_box", NULL};
    static const char *const captures[] = {"tunnel", "public", "sandbox", NULL};
    const char *mode = NULL;
    const char *capture = NULL;
    const char *agent = NULL;
    int r = text_of(at, "mode", &mode, err);
    r = r < 0 ? r : text_of(at, "capture", &capture, err);
    r = r < 0 ? r : text_of(at, "agent", &agent, err);
    r = r < 0 ? r : check_word(at.where, "mode", mode, modes, err);
    r = r < 0 ? r : check_word(at.where, "capture", capture, captures, err);
    r = r < 0 ? r : check_capture(o, capture, err);
    r = r < 0 ? r : check_word(at.where, "agent", agent, agent_names, err);
    r = r < 0 ? r : json_get_bool(at, "include_prompt_ids", &q->include_prompt_ids, err);
    if (r < 0) {
        return r;
    }
    if (mode) {
        q->options.mode =
            strcmp(mode, "black_box") == 0 ? ROLLOUT_BLACK_BOX : ROLLOUT_TRANSPARENT_PROXY;
    }
    if (agent) {
        q->options.agent = agent;
        q->options.running = NULL;
    }
    r = read_backend(at, o, q, err);
    return r < 0 ? r : read_machine(at, o, q, err);
}

static int read_all(struct json_at at, const struct tool_options *o, struct tool_request *q,
                    struct err *err) {
    int r = check_names(at, err);
    r = r < 0 ? r : read_words(at, o, q, err);
    r = r < 0 ? r : read_task(at, q, err);
    r = r < 0 ? r : check_network(o, &q->task, err);
    r = r < 0 ? r : check_limits(o, &q->task, err);
    if (r < 0) {
        return r;
    }
    fill_task(o->task, &q->task);
    r = read_config(at, o, q, err);
    if (r == 0) {
        q->options.config = &q->config.agent;
        q->options.machine = &q->config.machine;
        q->options.key_name = q->endpoint.key_name;
        q->options.is_strangers = json_string_length(json_object_get(at.object, "base_url")) > 0;
    }
    return r;
}

int tool_request_read(const struct tool_options *o, json_t *given, struct tool_request *out,
                      struct err *err) {
    struct tool_request q = {.options = *o->rollout};
    if (given && !json_is_object(given)) {
        return err_set(err, ERR_INPUT, "%s: want arguments as an object, got %s", TOOL_NAME,
                       json_kind(given));
    }
    q.arguments = given ? json_incref(given) : json_object();
    int r = q.arguments ? 0 : no_memory(err);
    if (r == 0) {
        *out = q; /* Pointers between the members are set in their last place. */
        r = read_all((struct json_at){q.arguments, TOOL_NAME}, o, out, err);
    }
    if (r < 0) {
        tool_request_deinit(out);
    }
    return r;
}

void tool_request_deinit(struct tool_request *r) {
    task_deinit(&r->task);
    config_deinit(&r->config);
    endpoint_deinit(&r->endpoint);
    json_decref(r->arguments);
    *r = (struct tool_request){0};
}

struct rollout_budget tool_budget(const struct tool_options *o) {
    struct rollout_limits operators = {0};
    const json_t *agent_s = json_object_get(o->config, "agent_timeout_s");
    double otherwise = json_is_number(agent_s) ? json_number_value(agent_s) : ARGUMENT_AGENT_S;
    if (o->task) {
        operators.setup_s = o->task->limits.setup_s;
        operators.agent_s = o->task->limits.agent_s;
        operators.verify_s = o->task->limits.verify_s;
    }
    return rollout_budget_make(&o->rollout->limits, &operators, otherwise, /* verifies= */ true, 0);
}

double tool_limit_s(const struct tool_options *o, const struct rollout_budget *b) {
    double pauses = 0;
    for (unsigned i = 0; i < o->rollout->retries; i++) {
        pauses += fmin(ldexp(o->rollout->retry_backoff_s > 0 ? o->rollout->retry_backoff_s : 5,
                             (int)(i < 16 ? i : 16)),
                       300);
    }
    return rollout_budget_lifetime_s(b) * (1 + o->rollout->retries) + pauses;
}
