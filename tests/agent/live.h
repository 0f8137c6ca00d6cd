/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_AGENT_LIVE_H
#define SNAFFLE_TESTS_AGENT_LIVE_H

#include <jansson.h>
#include <sys/types.h>

#include "agent/agent.h"

/* The real agent against the scripted model, without a sandbox: what did the model receive? */

struct live {
    char *folder; /* Of the test, under the system's temporary one. */
    char *log;    /* The model's. */
    char *url;    /* Ends in /v1. */
    pid_t model;
};

/* The real program, or NULL: SNAFFLE_TEST_OPENCODE, else this machine's installed one. */
const char *live_opencode(void);

void live_start(struct live *l, const char *script);
void live_stop(struct live *l); /* Removes the folder too. */

/* One run in a home of its own: "<folder>/<name>". */
struct live_run {
    const char *name;
    const char *instruction;
    struct agent_config config; /* sandbox_home is filled in. */
    const char *without;        /* An argument that begins like this is left out. */
    /* Called when the files are placed, before the start. */
    void (*prepare)(const char *home);
};

struct agent_config live_config(void); /* The defaults. */

/* Places the plan's files, runs the plan, and gives its exit code and log text (to be freed). */
int live_run(struct live *l, const struct live_run *run, char **out_log);
/* The same for several, side by side; every exit code must be 0. */
void live_run_all(struct live *l, const struct live_run *runs, size_t n);

/* The chat requests of a run so far, in order: [{"headers": {...}, "body": {...}}]. */
json_t *live_requests(const struct live *l, const char *run);

/* Parts of a request. */
const char *live_text(const json_t *request, const char *role, int nth); /* nth message of it */
char *live_tools(const json_t *request); /* Names, sorted as sent, with blanks between. */

void live_write(const char *home, const char *rest, const char *content);

#endif
