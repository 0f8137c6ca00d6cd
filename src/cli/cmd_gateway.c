/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "server/capture/capture.h"

#define GATEWAY_PORT 7000      /* The reference proxy's. */
#define GATEWAY_TOP_LOGPROBS 5 /* As well. */
#define GATEWAY_REQUEST_TIMEOUT_S 600
#define GATEWAY_JOURNAL "gateway-journal"
#define GATEWAY_KEY_MAX 4096 /* Of standard input's first line; keys have some hundred bytes. */

/* The key as long as the gateway is being set up, and the name of where it came from. */
struct key {
    char text[GATEWAY_KEY_MAX];
    const char *name;
};

static int read_stdin_key(struct key *key, struct err *err) {
    if (!fgets(key->text, sizeof key->text, stdin)) {
        return err_set(err, ERR_INPUT, "gateway: no key on standard input");
    }
    key->text[strcspn(key->text, "\r\n")] = 0;
    if (!key->text[0]) {
        return err_set(err, ERR_INPUT, "gateway: the key on standard input is empty");
    }
    key->name = "stdin";
    return 0;
}

/* Anybody on the machine may read a process's command line: not for longer than needed. The
 * strings are argv's own memory. */
static void take_argv_key(const struct args *a, struct key *key) {
    for (size_t i = 0; i < a->n_uses; i++) {
        const struct option_use *use = &a->uses[i];
        if (strcmp(use->option->name, "upstream-api-key") == 0) {
            (void)snprintf(key->text, sizeof key->text, "%s", use->text);
            key->name = "--upstream-api-key";
            explicit_bzero((char *)(uintptr_t)use->text, strlen(use->text));
        }
    }
}

static int find_key(const struct args *a, struct key *key, struct err *err) {
    static const char *const names[] = {"OPENCODE_UPSTREAM_API_KEY", "UPSTREAM_API_KEY"};
    take_argv_key(a, key);
    if (key->name) {
        (void)fputs("snaffle: warning: --upstream-api-key showed the key to this machine's process "
                    "list; use OPENCODE_UPSTREAM_API_KEY or --upstream-api-key-stdin\n",
                    stderr);
        return 0;
    }
    if (args_has(a, "upstream-api-key-stdin")) {
        return read_stdin_key(key, err);
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = env_get(names[i]);
        if (value) {
            key->name = names[i];
            (void)snprintf(key->text, sizeof key->text, "%s", value);
            return 0;
        }
    }
    return 0;
}

static int run(const struct args *a, struct err *err) {
    struct key key = {0};
    AUTO_FREE char *journal = NULL;
    int rc = find_key(a, &key, err);
    if (rc < 0) {
        return rc;
    }
    if (!args_has(a, "upstream-url")) {
        return err_set(err, ERR_USAGE, "gateway: want --upstream-url URL, the model's endpoint");
    }
    long long port = args_count(a, "port", GATEWAY_PORT);
    if (port > UINT16_MAX) {
        return err_set(err, ERR_USAGE, "gateway: --port: %lld is no port", port);
    }
    const char *trace = args_text(a, "trace");
    const char *dir = args_text(a, "journal");
    journal = dir     ? mem_strdup(dir)
              : trace ? mem_printf("%s.journal", trace)
                      : mem_strdup(GATEWAY_JOURNAL);
    if (!journal) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const struct capture_options o = {
        .host = args_text(a, "host"),
        .port = (uint16_t)port,
        .journal_dir = journal,
        .durable = args_has(a, "durable"),
        .keep_raw = args_has(a, "keep-raw"),
        .session =
            {
                .upstream_url = args_text(a, "upstream-url"),
                .api_key = key.name ? key.text : NULL,
                .key_name = key.name,
                .model_override = args_text(a, "model-override"),
                .edits = true,
                .record = true,
                .top_logprobs = (int)args_count(a, "top-logprobs", GATEWAY_TOP_LOGPROBS),
                .max_tokens_cap = args_count(a, "max-tokens-cap", 0),
                .disable_thinking = args_has(a, "disable-thinking"),
                .neutral_sampling = args_has(a, "neutral-sampling"),
                .header_timeout_s = args_number(a, "request-timeout", GATEWAY_REQUEST_TIMEOUT_S),
            },
    };
    rc = capture_run(&o, err);
    explicit_bzero(key.text, sizeof key.text);
    return rc;
}

const struct command cmd_gateway = {
    .name = "gateway",
    .summary = "stand between agents and a model, and record every call",
    .operands = "",
    .options =
        (const struct option[]){
            {"upstream-url", OPTION_TEXT, "URL", "the model's endpoint", NULL},
            {"upstream-api-key", OPTION_TEXT, "KEY",
             "its key; better in OPENCODE_UPSTREAM_API_KEY or UPSTREAM_API_KEY, since a command "
             "line can be read by everybody on the machine",
             NULL},
            {"upstream-api-key-stdin", OPTION_SWITCH, NULL,
             "read its key from standard input's first line", NULL},
            {"trace", OPTION_FILE, "FILE", "where the journal stands: FILE.journal", NULL},
            {"host", OPTION_TEXT, "ADDRESS", "listen there (default: 127.0.0.1)", NULL},
            {"port", OPTION_COUNT, "N", "listen on this port; 0: any free one (default: 7000)",
             NULL},
            {"top-logprobs", OPTION_COUNT, "N",
             "alternatives to ask for with each token (default: 5)", NULL},
            {"request-timeout", OPTION_NUMBER, "SECONDS",
             "wait so long for the endpoint's first byte (default: 600)", NULL},
            {"max-tokens-cap", OPTION_COUNT, "N",
             "clamp the tokens that a request asks for; 0: not (default: 0)", NULL},
            {"disable-thinking", OPTION_SWITCH, NULL,
             "switch the model's thinking off where a request does not say", NULL},
            {"model-override", OPTION_TEXT, "NAME", "the model to ask for in place of the agent's",
             NULL},
            {"neutral-sampling", OPTION_SWITCH, NULL,
             "switch truncation and penalties off, so that log-probabilities are those sampled "
             "from",
             NULL},
            {"journal", OPTION_FOLDER, "FOLDER",
             "record every call there (default: gateway-journal)", NULL},
            {"durable", OPTION_SWITCH, NULL, "a record counts once the disk has it", NULL},
            {"keep-raw", OPTION_SWITCH, NULL, "record the endpoint's answers also as they came",
             NULL},
            {0},
        },
    .run = run,
};
