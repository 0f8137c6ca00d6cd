/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/settings.h"

#include <string.h>

#include "base/env.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call_options.h"
#include "store/store.h"

static const char *const modes[] = {"transparent_proxy", "black_box", NULL};
static const char *const networks[] = {"none", "model", "full", NULL};
static const char *const verify_on[] = {"always", "clean", NULL};
static const char *const captures[] = {"tunnel", "public", "sandbox", NULL};
static const char *const verify_in[] = {"same", "fresh", NULL};
static const char *const users[] = {"root", "agent", NULL};
static const char *const truths[] = {"true", "false", NULL};

const struct option run_settings_options[] = {
    {"endpoint", OPTION_WORD, "KIND",
     "take the endpoint's address, key and model from this kind's environment variables and "
     "defaults",
     catalog_kinds},
    {"base-url", OPTION_TEXT, "URL", "the model endpoint's address, as a rule ending in /v1", NULL},
    {"api-key-env", OPTION_TEXT, "NAME", "the environment variable that holds the endpoint's key",
     NULL},
    {"model", OPTION_TEXT, "NAME", "the model, as the endpoint calls it", NULL},
    {"config", OPTION_FILE, "FILE", "a JSON file with the agent's configuration", NULL},
    {"mode", OPTION_WORD, "MODE",
     "record the calls, or pass them on unchanged and unrecorded (default: transparent_proxy)",
     modes},
    {"backend", OPTION_WORD, "NAME", "where sandboxes come from (default: local)",
     sandbox_backend_names},
    {"agent", OPTION_WORD, "NAME", "the agent that does the task (default: opencode)", agent_names},
    {"agent-cmd", OPTION_TEXT, "TEXT",
     "what the agent 'command' is: shell text whose program takes OPENAI_BASE_URL and "
     "OPENAI_API_KEY from its environment",
     NULL},
    {"mount", OPTION_TEXT, "HOST:PATH",
     "show a file or folder of this machine read-only inside, under PATH; may be repeated", NULL},
    {"rootfs", OPTION_FOLDER, "DIR",
     "the system inside, in place of this machine's: a root folder or an OCI image layout", NULL},
    {"capture", OPTION_WORD, "WAY",
     "how the agent reaches its model: by the sandbox's own port (tunnel), at this machine's "
     "--public-url, or through a gateway inside the sandbox (default: local: tunnel; hf: sandbox)",
     captures},
    {"public-url", OPTION_TEXT, "URL",
     "of --capture public: where sandboxes reach this process's gateway", NULL},
    {"listen", OPTION_TEXT, "ADDRESS:PORT",
     "of --capture public: where the gateway listens (default: 127.0.0.1:7000)", NULL},
    {"runs", OPTION_FOLDER, "DIR", "where runs are kept (default: ./runs)", NULL},
    {"run", OPTION_TEXT, "NAME", "the run's name (default: made from the time)", NULL},
    {"network", OPTION_WORD, "WORD",
     "what setup, agent and verify reach, in place of the task's own choice", networks},
    {"strict", OPTION_SWITCH, NULL, "refuse to run where a limit or border can't be enforced",
     NULL},
    {"verify-on", OPTION_WORD, "WHEN",
     "grade always, or only after an agent that ended cleanly (default: always)", verify_on},
    {"verify-in", OPTION_WORD, "WHERE",
     "with --backend hf: grade in the agent's sandbox, or in another that it has never seen "
     "(default: same; local sandboxes are always graded in another)",
     verify_in},
    {"require-calls", OPTION_SWITCH, NULL, "a rollout without a model call has failed", NULL},
    CALL_OPTIONS,
    {"setup-offline", OPTION_SWITCH, NULL,
     "no outside network for setup unless the task asks for it", NULL},
    {"retries", OPTION_COUNT, "N", "further attempts after causes worth one (default: 1)", NULL},
    {"keep-raw", OPTION_SWITCH, NULL, "keep the endpoint's raw answers in the journal too", NULL},
    {"durable", OPTION_SWITCH, NULL, "a call counts as recorded only once it is on the disk", NULL},
    {"budget-s", OPTION_NUMBER, "SECONDS", "bound the whole rollout (default: by its phases only)",
     NULL},
    {"create-s", OPTION_NUMBER, "SECONDS", "time for making the sandbox (default: 120)", NULL},
    {"install-s", OPTION_NUMBER, "SECONDS", "time for placing the agent (default: 240)", NULL},
    {"setup-s", OPTION_NUMBER, "SECONDS", "time for all setup commands (default: 300)", NULL},
    {"agent-timeout-s", OPTION_NUMBER, "SECONDS", "time for the agent (default: 900)", NULL},
    {"verify-s", OPTION_NUMBER, "SECONDS", "time for all verify commands (default: 300)", NULL},
    {"verify-command-s", OPTION_NUMBER, "SECONDS", "time for each verify command (default: 120)",
     NULL},
    {"memory-mb", OPTION_COUNT, "MB", "the sandbox's memory (default: 2048)", NULL},
    {"processes", OPTION_COUNT, "N", "the sandbox's processes (default: 512)", NULL},
    {"disk-mb", OPTION_COUNT, "MB", "the sandbox's disk (default: 2048)", NULL},
    {"provider", OPTION_TEXT, "NAME",
     "how the agent speaks to the model (default: openai_compatible)", NULL},
    {"request-timeout-ms", OPTION_COUNT, "MS", "the agent's limit on one call (default: 600000)",
     NULL},
    {"opencode-version", OPTION_TEXT, "VERSION", "the agent's version, or 'latest'", NULL},
    {"disabled-tools", OPTION_TEXT, "LIST",
     "tools the agent lacks, with commas between (default: webfetch,question)", NULL},
    {"enabled-tools", OPTION_TEXT, "LIST", "the only tools the agent has", NULL},
    {"system-prompt", OPTION_TEXT, "TEXT", "a system prompt for the agent", NULL},
    {"extra-opencode-json", OPTION_TEXT, "JSON", "merged into the agent's own configuration last",
     NULL},
    {"run-format", OPTION_WORD, "WORD", "how the agent writes its log (default: json)",
     (const char *const[]){"json", "default", NULL}},
    {"extra-env", OPTION_TEXT, "NAME=VALUE",
     "a variable of the agent's environment; may be repeated", NULL},
    {"extra-setup-shell", OPTION_TEXT, "TEXT", "a command run before the task's own setup", NULL},
    {"sandbox-home", OPTION_TEXT, "DIR",
     "the home inside the sandbox (default: /home/user; hf: /root)", NULL},
    {"image", OPTION_TEXT, "IMAGE",
     "with --backend hf: the system inside, as for docker pull, or a Space's address (default: "
     "python:3.12)",
     NULL},
    {"flavor", OPTION_TEXT, "NAME", "with --backend hf: the machine's size (default: cpu-basic)",
     NULL},
    {"namespace", OPTION_TEXT, "NAME",
     "with --backend hf: the account or organization that pays (default: the token's own)", NULL},
    {"agent-user", OPTION_WORD, "USER",
     "with --backend hf: commands run as root, or as a user who has no way back to root (default: "
     "root)",
     users},
    {"env", OPTION_TEXT, "NAME=VALUE",
     "with --backend hf: a variable of all that runs inside, shown by the Hub; may be repeated",
     NULL},
    {"secret", OPTION_TEXT, "NAME",
     "with --backend hf: give all that runs inside this variable of our own environment, not shown "
     "by the Hub; "
     "may be repeated",
     NULL},
    {"volume", OPTION_TEXT, "WHAT:PATH[:ro]",
     "with --backend hf: mount what stands on the Hub, as datasets/OWNER/NAME:/data; may be "
     "repeated",
     NULL},
    {"start-timeout-s", OPTION_NUMBER, "SECONDS",
     "with --backend hf: time for the machine to come up (default: 120)", NULL},
    {"forward-hf-token", OPTION_SWITCH, NULL,
     "with --backend hf: give all that runs inside the Hub's token as HF_TOKEN", NULL},
    {"proxy-max-tokens-cap", OPTION_COUNT, "N",
     "cut a call's token limit to this (default: 16384; 0: none)", NULL},
    {"proxy-top-logprobs", OPTION_COUNT, "N", "alternatives asked for with each token (default: 5)",
     NULL},
    {"proxy-disable-thinking", OPTION_WORD, "BOOL",
     "switch the model's thinking off (default: as the endpoint's kind has it)", truths},
    {0},
};

/* The file's value, unless the kind's environment variable is set, which weighs more. */
static const char *from_file(const json_t *file, const char *field, const char *variable) {
    const char *value = json_string_value(json_object_get(file, field));
    return variable && env_get(variable) ? NULL : value;
}

static const struct catalog_entry *entry_of(const char *kind) {
    for (const struct catalog_entry *e = catalog; kind && e->kind; e++) {
        if (strcmp(e->kind, kind) == 0) {
            return e;
        }
    }
    return NULL;
}

struct endpoint_args run_settings_endpoint(const struct args *a, const json_t *file,
                                           const json_t *flags, bool *off) {
    struct endpoint_args e = {.kind = args_text(a, "endpoint"),
                              .base_url = args_text(a, "base-url"),
                              .api_key_env = args_text(a, "api-key-env"),
                              .model = args_text(a, "model")};
    const struct catalog_entry *entry = entry_of(e.kind);
    const json_t *thinking = json_object_get(flags, "proxy_disable_thinking");
    thinking = thinking ? thinking : json_object_get(file, "proxy_disable_thinking");
    *off = json_is_true(thinking);
    if (!e.base_url) {
        e.base_url = from_file(file, "base_url", entry ? entry->base_url_env : NULL);
    }
    if (!e.model) {
        e.model = from_file(file, "model", entry ? entry->model_env : NULL);
    }
    if (!e.api_key_env) {
        e.api_key = from_file(file, "api_key", entry ? entry->api_key_env : NULL);
    }
    e.disable_thinking = json_is_boolean(thinking) ? off : NULL;
    return e;
}

static int read_endpoint(const struct args *a, const json_t *file, const json_t *flags,
                         struct endpoint *out, struct err *err) {
    bool off = false;
    const struct endpoint_args e = run_settings_endpoint(a, file, flags, &off);
    if (!e.kind && !args_has(a, "base-url") && !json_object_get(file, "base_url")) {
        return err_set(err, ERR_USAGE,
                       "%s: which model? give --endpoint vllm|openai|hf_router, or --base-url "
                       "with --model",
                       a->command->name);
    }
    return endpoint_resolve(&e, out, err);
}

static int read_config(const struct args *a, struct run_settings *s, struct err *err) {
    AUTO_JSON json_t *file = NULL;
    AUTO_JSON json_t *flags = NULL;
    const char *path = args_text(a, "config");
    const char *agent_name = args_text(a, "agent");
    const struct agent *agent = agent_find(agent_name ? agent_name : "opencode");
    const char *backend_name = args_text(a, "backend");
    const struct sandbox_backend *backend =
        sandbox_backend_find(backend_name ? backend_name : "local");
    int r = path ? config_load(path, &file, err) : 0;
    if (r == 0) {
        r = run_settings_flags(a, &flags, err);
    }
    if (r < 0) {
        return r;
    }
    const struct config_layer layers[] = {{file, path}, {flags, "the command line"}};
    const struct config_defaults defaults = {agent ? agent->default_version : NULL,
                                             backend ? backend->home : NULL};
    r = config_build(layers, ARRAY_LEN(layers), &defaults, &s->config, err);
    if (r == 0) {
        r = read_endpoint(a, file, flags, &s->endpoint, err);
    }
    if (r == 0) {
        s->config.agent.base_url = s->endpoint.base_url;
        s->config.agent.api_key = s->endpoint.api_key;
        s->config.agent.model = s->endpoint.model;
        s->config.agent.proxy_disable_thinking = s->endpoint.disable_thinking;
    }
    return r;
}

void run_settings_lay_over(const struct args *a, struct task *t) {
    const char *word = args_text(a, "network");
    for (int phase = 0; word && phase < TASK_PHASES; phase++) {
        t->network[phase].given = true;
        t->network[phase].word = strcmp(word, "none") == 0    ? SANDBOX_NETWORK_NONE
                                 : strcmp(word, "model") == 0 ? SANDBOX_NETWORK_MODEL
                                                              : SANDBOX_NETWORK_FULL;
    }
    t->limits.setup_s = args_number(a, "setup-s", t->limits.setup_s);
    t->limits.agent_s = args_number(a, "agent-timeout-s", t->limits.agent_s);
    t->limits.verify_s = args_number(a, "verify-s", t->limits.verify_s);
    t->limits.memory_mb = args_count(a, "memory-mb", t->limits.memory_mb);
    t->limits.processes = args_count(a, "processes", t->limits.processes);
    t->limits.disk_mb = args_count(a, "disk-mb", t->limits.disk_mb);
}

void run_settings_rollout(const struct args *a, struct rollout_options *out) {
    const char *mode = args_text(a, "mode");
    const char *when = args_text(a, "verify-on");
    const char *where = args_text(a, "verify-in");
    *out = (struct rollout_options){
        .backend = args_text(a, "backend"),
        .agent = args_text(a, "agent"),
        .mode =
            mode && strcmp(mode, "black_box") == 0 ? ROLLOUT_BLACK_BOX : ROLLOUT_TRANSPARENT_PROXY,
        .runs_dir = args_text(a, "runs"),
        .run = args_text(a, "run"),
        .keep_raw = args_has(a, "keep-raw"),
        .durable = args_has(a, "durable"),
        .strict = args_has(a, "strict"),
        .require_calls = args_has(a, "require-calls"),
        .logprobs_processed = args_has(a, "logprobs-processed"),
        .setup_offline = args_has(a, "setup-offline"),
        .verify_on =
            when && strcmp(when, "clean") == 0 ? ROLLOUT_VERIFY_CLEAN : ROLLOUT_VERIFY_ALWAYS,
        .verify_in =
            where && strcmp(where, "fresh") == 0 ? ROLLOUT_VERIFY_FRESH : ROLLOUT_VERIFY_SAME,
        .retries = (unsigned)args_count(a, "retries", 1),
        .limits = {.create_s = args_number(a, "create-s", 0),
                   .install_s = args_number(a, "install-s", 0),
                   .verify_command_s = args_number(a, "verify-command-s", 0),
                   .budget_s = args_number(a, "budget-s", 0)},
    };
}

static int check_name(const struct args *a, const char *what, struct err *err) {
    const char *name = option_find(a->command, what) ? args_text(a, what) : NULL;
    return name ? store_check_name(what, name, err) : 0;
}

int run_settings_read_flags(const struct args *a, struct run_settings *out, struct err *err) {
    struct run_settings s = {0};
    int r = check_name(a, "run", err);
    r = r < 0 ? r : check_name(a, "group", err);
    r = r < 0 ? r : check_name(a, "rollout", err);
    r = r < 0 ? r : read_config(a, &s, err);
    if (r < 0) {
        run_settings_deinit(&s);
        return r;
    }
    *out = s;
    run_settings_rollout(a, &out->options);
    out->options.config = &out->config.agent;
    out->options.machine = &out->config.machine;
    out->options.key_name = out->endpoint.key_name;
    return 0;
}

int run_settings_read(const struct args *a, struct run_settings *out, struct err *err) {
    struct task task = {0};
    int r = task_load(a->operands[0], &task, err);
    r = r < 0 ? r : run_settings_read_flags(a, out, err);
    if (r < 0) {
        task_deinit(&task);
        return r;
    }
    out->task = task;
    run_settings_lay_over(a, &out->task);
    return 0;
}

void run_settings_deinit(struct run_settings *s) {
    task_deinit(&s->task);
    config_deinit(&s->config);
    endpoint_deinit(&s->endpoint);
    *s = (struct run_settings){0};
}
