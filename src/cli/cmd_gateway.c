/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/env.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/call_options.h"
#include "cli/commands.h"
#include "cli/server_key.h"
#include "server/capture/capture.h"

/* The first four are those of the proxy that this one drops in for. */
#define GATEWAY_PORT 7000
#define GATEWAY_TOP_LOGPROBS 5
#define GATEWAY_TIMEOUT_S 600
#define GATEWAY_KEY "intercepted" /* Sent where no key is given: engines that want any take it. */
#define GATEWAY_JOURNAL "gateway-journal"
#define GATEWAY_LOOP_MAX 1000000 /* Failures of one body; nobody waits for so many. */
#define GATEWAY_DRAIN_S 25       /* Supervisors kill 30 s after they asked. */
#define GATEWAY_KEY_VARIABLE "SNAFFLE_GATEWAY_KEY"

static int read_stdin_key(struct server_key *key, struct err *err) {
    char line[SERVER_KEY_MAX + 2];
    if (!fgets(line, sizeof line, stdin)) {
        return err_set(err, ERR_INPUT, "gateway: no key on standard input");
    }
    int rc = server_key_set(key, "stdin", sv_from(line), err);
    explicit_bzero(line, sizeof line);
    return rc;
}

/* Anybody on the machine may read a process's command line: not for longer than needed. The
 * strings are argv's own memory. */
static int take_argv_key(const struct args *a, struct server_key *key, struct err *err) {
    int rc = 0;
    for (size_t i = 0; i < a->n_uses; i++) {
        const struct option_use *use = &a->uses[i];
        if (strcmp(use->option->name, "upstream-api-key") == 0) {
            rc = server_key_set(key, "--upstream-api-key", sv_from(use->text), err);
            explicit_bzero((char *)(uintptr_t)use->text, strlen(use->text));
        }
    }
    if (rc == 0 && key->name) {
        (void)fputs("snaffle: warning: --upstream-api-key shows the key to who lists processes; "
                    "use OPENCODE_UPSTREAM_API_KEY or --upstream-api-key-stdin\n",
                    stderr);
    }
    return rc;
}

static int find_upstream_key(const struct args *a, struct server_key *key, struct err *err) {
    static const char *const names[] = {"OPENCODE_UPSTREAM_API_KEY", "UPSTREAM_API_KEY"};
    int rc = take_argv_key(a, key, err);
    if (rc == 0 && !key->name && args_has(a, "upstream-api-key-stdin")) {
        rc = read_stdin_key(key, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(names) && rc == 0 && !key->name; i++) {
        const char *value = env_get(names[i]);
        rc = value ? server_key_set(key, names[i], sv_from(value), err) : 0;
    }
    if (rc == 0 && !key->name) {
        (void)snprintf(key->text, sizeof key->text, "%s", GATEWAY_KEY);
    }
    return rc;
}

/* Many sessions need an admin's key also on loopback: their agents may be on this machine. */
static int check_key(const struct args *a, const struct server_key *own, struct err *err) {
    bool many = args_has(a, "sessions") || args_has(a, "openenv-sessions");
    const char *host = args_text(a, "host");
    if (own->name || args_has(a, "allow-anonymous")) {
        return 0;
    }
    if (many) {
        return err_set(err, ERR_USAGE,
                       "gateway: --sessions needs an admin key: set " GATEWAY_KEY_VARIABLE
                       ", or give --key-file (or --allow-anonymous)");
    }
    if (!server_key_is_loopback(host)) {
        return err_set(
            err, ERR_USAGE,
            "gateway: --host %s is no loopback address and needs a key: set " GATEWAY_KEY_VARIABLE
            ", or give --key-file (or --allow-anonymous)",
            host);
    }
    return 0;
}

/* What can't be meant together. */
static int check_options(const struct args *a, struct err *err) {
    bool many = args_has(a, "sessions") || args_has(a, "openenv-sessions");
    if (many && (args_has(a, "trace") || args_has(a, "unix"))) {
        return err_set(err, ERR_USAGE,
                       "gateway: --trace and --unix are of a single session; of many, "
                       "GET /sessions/ID/trace gives each its own");
    }
    if (!many && !args_has(a, "upstream-url") && !args_has(a, "upstream-file")) {
        return err_set(err, ERR_USAGE, "gateway: want --upstream-url URL, the model's endpoint");
    }
    if (args_has(a, "upstream-url") && args_has(a, "upstream-file")) {
        return err_set(err, ERR_USAGE, "gateway: want either --upstream-url or --upstream-file");
    }
    if (!many && args_has(a, "forget")) {
        return err_set(err, ERR_USAGE,
                       "gateway: --forget is of many sessions (--sessions): the records of one "
                       "that is deleted go");
    }
    return 0;
}

static int small_count(const struct args *a, const char *name, long long otherwise, long long max,
                       long long *out, struct err *err) {
    *out = args_count(a, name, otherwise);
    if (*out > max) {
        return err_set(err, ERR_USAGE, "gateway: --%s: want at most %lld, got %lld", name, max,
                       *out);
    }
    return 0;
}

static char *journal_dir(const struct args *a) {
    const char *dir = args_text(a, "journal");
    const char *trace = args_text(a, "trace");
    return dir     ? mem_strdup(dir)
           : trace ? mem_printf("%s.journal", trace)
                   : mem_strdup(GATEWAY_JOURNAL);
}

/* Each use names one more engine. */
static const char **upstream_urls(const struct args *a) {
    const char **urls = calloc(a->n_uses + 1, sizeof *urls);
    size_t n = 0;
    for (size_t i = 0; urls && i < a->n_uses; i++) {
        if (strcmp(a->uses[i].option->name, "upstream-url") == 0) {
            urls[n++] = a->uses[i].text;
        }
    }
    return urls;
}

static int serve(const struct args *a, const struct server_key *upstream,
                 const struct server_key *own, struct err *err) {
    AUTO_FREE char *journal = journal_dir(a);
    AUTO_FREE const char **urls = upstream_urls(a);
    long long port = 0;
    long long workers = 0;
    long long top = 0;
    long long loop_break = 0;
    int rc = small_count(a, "port", GATEWAY_PORT, UINT16_MAX, &port, err);
    rc = rc < 0 ? rc : small_count(a, "workers", 1, GATEWAY_WORKERS_MAX, &workers, err);
    rc = rc < 0 ? rc : small_count(a, "top-logprobs", GATEWAY_TOP_LOGPROBS, INT16_MAX, &top, err);
    rc = rc < 0 ? rc : small_count(a, "loop-break", 0, GATEWAY_LOOP_MAX, &loop_break, err);
    if (rc == 0 && (!journal || !urls)) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    if (rc < 0) {
        return rc;
    }
    const struct capture_options o = {
        .host = args_text(a, "host"),
        .port = (uint16_t)port,
        .unix_path = args_text(a, "unix"),
        .workers = (unsigned)workers,
        .journal_dir = journal,
        .durable = args_has(a, "durable"),
        .keep_raw = args_has(a, "keep-raw"),
        .forget = args_has(a, "forget"),
        .engine = args_text(a, "engine"),
        .trace = args_text(a, "trace"),
        .logprobs_processed = args_has(a, "logprobs-processed"),
        .upstreams = urls,
        .upstream_file = args_text(a, "upstream-file"),
        .sessions = args_has(a, "sessions") || args_has(a, "openenv-sessions"),
        .openenv_sessions = args_has(a, "openenv-sessions"),
        .key = own->name ? own->text : NULL,
        .allow_anonymous = args_has(a, "allow-anonymous"),
        .drain_s = args_number(a, "drain", GATEWAY_DRAIN_S),
        .session =
            {
                .api_key = upstream->text,
                .key_name = upstream->name,
                .model_override = args_text(a, "model-override"),
                .level = args_text(a, "level"),
                .edits = !args_has(a, "no-edits"),
                .record = !args_has(a, "no-record"),
                .top_logprobs = (int)top,
                .max_tokens_cap = args_count(a, "max-tokens-cap", 0),
                .disable_thinking = args_has(a, "disable-thinking"),
                .neutral_sampling = args_has(a, "neutral-sampling"),
                .policy_version = args_text(a, "policy-version"),
                .loop_break_calls = (unsigned)loop_break,
                .loop_break_s = args_number(a, "loop-break-s", 0),
                .header_timeout_s = args_number(a, "request-timeout", GATEWAY_TIMEOUT_S),
            },
    };
    return capture_run(&o, err);
}

static int run(const struct args *a, struct err *err) {
    struct server_key upstream = {.command = "gateway"};
    struct server_key own = {.command = "gateway"};
    int rc = find_upstream_key(a, &upstream, err); /* First: the key is in sight till then. */
    rc = rc < 0 ? rc : server_key_find(args_text(a, "key-file"), GATEWAY_KEY_VARIABLE, &own, err);
    rc = rc < 0 ? rc : check_options(a, err);
    rc = rc < 0 ? rc : check_key(a, &own, err);
    if (rc == 0 && !own.name && !server_key_is_loopback(args_text(a, "host"))) {
        (void)fputs("snaffle: warning: whoever reaches this gateway may use the model with your "
                    "key, since --allow-anonymous is set\n",
                    stderr);
    }
    rc = rc < 0 ? rc : serve(a, &upstream, &own, err);
    explicit_bzero(&upstream, sizeof upstream);
    explicit_bzero(&own, sizeof own);
    return rc;
}

static const char *const level_names[] = {"tokens", "logprobs", "text", NULL};

static const struct option options[] = {
    {"upstream-url", OPTION_TEXT, "URL",
     "the model's endpoint; given more than once: engines of one model, of which the least busy "
     "gets a session",
     NULL},
    {"upstream-file", OPTION_FILE, "FILE", "the endpoints' URLs, one a line, read again on SIGHUP",
     NULL},
    {"upstream-api-key", OPTION_TEXT, "KEY",
     "their key; better in OPENCODE_UPSTREAM_API_KEY or UPSTREAM_API_KEY, since a command line is "
     "no secret (default: intercepted)",
     NULL},
    {"upstream-api-key-stdin", OPTION_SWITCH, NULL,
     "read their key from standard input's first line", NULL},
    {"trace", OPTION_FILE, "FILE", "append a line for each call to FILE, once it is over", NULL},
    {"journal", OPTION_FOLDER, "FOLDER",
     "record every call there (default: FILE.journal of --trace, else gateway-journal)", NULL},
    {"host", OPTION_TEXT, "ADDRESS",
     "listen there; anything but loopback needs a key (default: 127.0.0.1)", NULL},
    {"port", OPTION_COUNT, "N", "listen on this port; 0: any free one (default: 7000)", NULL},
    {"unix", OPTION_FILE, "PATH", "listen on this unix socket too", NULL},
    {"workers", OPTION_COUNT, "N", "threads, each with a listener of its own (default: 1)", NULL},
    {"key-file", OPTION_FILE, "FILE",
     "the key that clients must show, in place of SNAFFLE_GATEWAY_KEY: an agent of a single "
     "session, the admin of many",
     NULL},
    {"allow-anonymous", OPTION_SWITCH, NULL, "serve without a key whoever comes", NULL},
    {"sessions", OPTION_SWITCH, NULL, "serve many sessions, which an admin opens by POST /sessions",
     NULL},
    {"openenv-sessions", OPTION_SWITCH, NULL,
     "the same for clients that send a session's id as their key: the id is the token", NULL},
    {"top-logprobs", OPTION_COUNT, "N", "alternatives to ask for with each token (default: 5)",
     NULL},
    {"level", OPTION_WORD, "LEVEL", "ask for this much at most (default: tokens)", level_names},
    CALL_OPTIONS,
    {"request-timeout", OPTION_NUMBER, "SECONDS",
     "wait so long for the endpoint's first byte; 0: for ever (default: 600)", NULL},
    {"max-tokens-cap", OPTION_COUNT, "N",
     "clamp the tokens that a request asks for; 0: not (default: 0)", NULL},
    {"disable-thinking", OPTION_SWITCH, NULL,
     "switch the model's thinking off where a request does not say", NULL},
    {"model-override", OPTION_TEXT, "NAME", "the model to ask for in place of the agent's", NULL},
    {"no-edits", OPTION_SWITCH, NULL, "forward requests as they are, asking for nothing more",
     NULL},
    {"no-record", OPTION_SWITCH, NULL, "write nothing down of the calls", NULL},
    {"durable", OPTION_SWITCH, NULL, "a record counts once the disk has it", NULL},
    {"keep-raw", OPTION_SWITCH, NULL, "record the endpoint's answers also as they came", NULL},
    {"forget", OPTION_SWITCH, NULL,
     "let the records of a session go from the journal when an admin deletes it", NULL},
    {"drain", OPTION_NUMBER, "SECONDS",
     "let open calls go on so long after SIGTERM or SIGINT (default: 25)", NULL},
    {0},
};

const struct command cmd_gateway = {
    .name = "gateway",
    .summary = "stand between agents and a model, and record every call",
    .operands = "",
    .options = options,
    .run = run,
};
