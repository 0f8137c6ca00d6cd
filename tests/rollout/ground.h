/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_ROLLOUT_GROUND_H
#define SNAFFLE_TESTS_ROLLOUT_GROUND_H

#include "rollout/config.h"
#include "rollout/factory.h"
#include "rollout/result.h"
#include "rollout/task.h"

/*
 * What a test of whole rollouts stands on: a folder for runs, a configuration, and an agent that is
 * the shell: its instruction is the script that it runs in the sandbox.
 */
extern const struct agent shell_agent;

struct ground {
    char dir[64]; /* Removed by ground_take_down. */
    struct config config;
    struct rollout_options options; /* Local sandbox, shell agent, recorded calls. */
    struct rollout_factory *factory;
};

#define GROUND_KEY "sk-real-key-that-stays-outside"

/* cmocka fixtures; skip where no sandbox can be had is the test's matter: ground_has_sandbox. */
int ground_set_up(void **state);
int ground_take_down(void **state);

/* Whether sandboxes work here; `why` gets the line that says what is missing. */
bool ground_has_sandbox(char *why, size_t size);

/* The factory over the options as they are now; a second call after a change begins another run. */
struct rollout_factory *ground_factory(struct ground *g);
void ground_drop_factory(struct ground *g);

/* Runs the task (JSON text, with ' for "). */
void ground_roll(struct ground *g, const char *task, const struct rollout_control *control,
                 struct rollout_result *out);

/* Checks what is on disk against the schemas. */
void ground_check(const struct ground *g, const struct rollout_result *out);

/* The project's folder. Kept before a test becomes an ordinary user, it can be used even where the
 * path to it is closed to that user: an open folder stays open. */
void ground_keep_sources(void);
const char *ground_sources(void);

/* Both. */
void ground_run(struct ground *g, const char *task, const struct rollout_control *control,
                struct rollout_result *out);

/* The task from JSON text with ' for ". */
void ground_task(const char *text, struct task *out);

/* The text of runs/.../NAME; the caller frees. */
char *ground_read(const struct rollout_result *r, const char *name);

/* No file under the folder holds the text; names the first that does. */
void ground_assert_nowhere(const char *dir, const char *text);

/* Runs a program of the host; gives whether it ended with 0, and its output's first line. */
bool ground_runs(const char *const *argv, int limit_s, char *line, size_t size);

/* How many sandboxes of this process are alive. */
size_t ground_sandboxes(void);

#define NEED_SANDBOX()                                                                             \
    do {                                                                                           \
        char why_[ERR_MSG_MAX];                                                                    \
        if (!ground_has_sandbox(why_, sizeof why_)) {                                              \
            skip_because("%s", why_);                                                              \
        }                                                                                          \
    } while (0)

#endif
