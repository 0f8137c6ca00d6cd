/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/server_key.h"
#include "cli/tool_settings.h"
#include "server/openenv/sessions.h"
#include "server/serve.h"

#define SERVE_PORT 8000
/* Supervisors kill 30 s after they asked; the sandboxes have to be gone by then. */
#define SERVE_DRAIN_S 15
#define SERVE_KEY_VARIABLE "SNAFFLE_SERVE_KEY"
#define SESSIONS_VARIABLE "MAX_CONCURRENT_ENVS"
#define SESSIONS_LIMIT                                                                             \
    100000u /* Each may have a connection, of which a process has some 20,000.                     \
             */

static const char *const modes[] = {"simulation", "production", NULL};

static int read_sessions(unsigned *out, struct err *err) {
    const char *text = env_get(SESSIONS_VARIABLE);
    unsigned long long n = SESSIONS_MAX_DEFAULT;
    if (text && (!sv_parse_u64(sv_from(text), SESSIONS_LIMIT, &n) || n < 1)) {
        return err_set(err, ERR_INPUT, SESSIONS_VARIABLE ": want a number from 1 to %u, got '%s'",
                       SESSIONS_LIMIT, text);
    }
    *out = (unsigned)n;
    return 0;
}

static int read_mode(const struct args *a, bool *production, struct err *err) {
    const char *flag = args_text(a, "openenv-mode");
    const char *word = flag ? flag : env_get("OPENENV_MODE");
    if (word && strcmp(word, modes[0]) != 0 && strcmp(word, modes[1]) != 0) {
        return err_set(err, ERR_INPUT, "OPENENV_MODE: want simulation or production, got '%s'",
                       word);
    }
    *production = word && strcmp(word, modes[1]) == 0;
    return 0;
}

/* As the reference reads it, but that it is on unless it is said otherwise. */
static bool has_web(void) {
    const char *word = env_get("ENABLE_WEB_INTERFACE");
    struct sv v = sv_from(word);
    return !word || sv_eq_nocase(v, SV("true")) || sv_eq(v, SV("1")) || sv_eq_nocase(v, SV("yes"));
}

static int check_key(const struct args *a, const struct server_key *key, struct err *err) {
    const char *host = args_text(a, "host");
    if (key->name || server_key_is_loopback(host)) {
        return 0;
    }
    if (!args_has(a, "allow-anonymous")) {
        return err_set(
            err, ERR_USAGE,
            "serve: --host %s is no loopback address and needs a key: set " SERVE_KEY_VARIABLE
            ", or give --key-env or --key-file (or --allow-anonymous)",
            host);
    }
    (void)fputs("snaffle: warning: whoever reaches this server may run agents on it, since "
                "--allow-anonymous is set\n",
                stderr);
    return 0;
}

static int serve(const struct args *a, const struct server_key *key, struct tool_settings *tools,
                 const struct task_list *tasks, struct err *err) {
    long long port = args_count(a, "port", SERVE_PORT);
    struct serve_options o = {
        .host = args_text(a, "host"),
        .tools = &tools->options,
        .web = has_web(),
        .tasks = args_has(a, "tasks") ? tasks : NULL,
        .key = key->name ? key->text : NULL,
        .drain_s = args_number(a, "drain", SERVE_DRAIN_S),
    };
    if (port > UINT16_MAX) {
        return err_set(err, ERR_USAGE, "serve: --port: want at most %d, got %lld", UINT16_MAX,
                       port);
    }
    int r = read_sessions(&o.sessions_max, err);
    r = r < 0 ? r : read_mode(a, &o.production, err);
    if (r < 0) {
        return r;
    }
    o.port = (uint16_t)port;
    tools->options.hides_paths = true;
    tools->options.is_public = !server_key_is_loopback(o.host);
    if (!args_has(a, "max-concurrent")) {
        tools->options.concurrent_max = o.sessions_max;
    }
    log_set_level(args_has(a, "quiet") ? LOG_WARNING : LOG_INFO);
    return serve_run(&o, err);
}

static int find_key(const struct args *a, struct server_key *key, struct err *err) {
    const char *file = args_text(a, "key-file");
    const char *variable = args_text(a, "key-env");
    if (file && variable) {
        return err_set(err, ERR_USAGE, "serve: one key: give --key-file or --key-env");
    }
    return variable ? server_key_of(variable, key, err)
                    : server_key_find(file, SERVE_KEY_VARIABLE, key, err);
}

static int run(const struct args *a, struct err *err) {
    struct server_key key = {.command = "serve"};
    struct tool_settings tools = {0};
    struct task_list tasks = {0};
    const char *folder = args_text(a, "tasks");
    int r = find_key(a, &key, err);
    r = r < 0 ? r : check_key(a, &key, err);
    r = r < 0 ? r : tool_settings_read(a, &tools, err);
    r = r < 0 || !folder ? r : task_list_load(folder, &tasks, err);
    r = r < 0 ? r : serve(a, &key, &tools, &tasks, err);
    task_list_deinit(&tasks);
    tool_settings_deinit(&tools);
    explicit_bzero(&key, sizeof key);
    return r;
}

static const struct option options[] = {
    {"host", OPTION_TEXT, "ADDRESS",
     "listen there; anything but loopback needs a key (default: 127.0.0.1)", NULL},
    {"port", OPTION_COUNT, "N", "listen on this port; 0: any free one (default: 8000)", NULL},
    {"key-env", OPTION_TEXT, "NAME",
     "the environment variable that holds the key that clients must show "
     "(default: " SERVE_KEY_VARIABLE "); --api-key-env is the model endpoint's",
     NULL},
    {"key-file", OPTION_FILE, "FILE", "the file that holds the key that clients must show", NULL},
    {"allow-anonymous", OPTION_SWITCH, NULL, "serve without a key whoever comes", NULL},
    TOOL_SETTINGS_OPTIONS,
    {"tasks", OPTION_FOLDER, "FOLDER", "offer these tasks: a folder or a file of them", NULL},
    {"openenv-mode", OPTION_WORD, "MODE",
     "in production there is no /reset, /step and /state (default: OPENENV_MODE, else simulation)",
     modes},
    {"quiet", OPTION_SWITCH, NULL, "say nothing of each rollout's beginning and end", NULL},
    {"drain", OPTION_NUMBER, "SECONDS",
     "let rollouts go on so long after SIGTERM or SIGINT (default: 15)", NULL},
    {0},
};

const struct command cmd_serve = {
    .name = "serve",
    .summary = "serve rollouts to trainers: OpenEnv and MCP",
    .operands = "",
    .options = options,
    .also = run_settings_options,
    .notes = "Of --endpoint and the like, and --config, a call takes what it does not name itself.",
    .run = run,
};
