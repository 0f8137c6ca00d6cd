/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_SETTINGS_H
#define SNAFFLE_CLI_SETTINGS_H

#include "cli/option.h"
#include "rollout/catalog.h"
#include "rollout/config.h"
#include "rollout/factory.h"
#include "rollout/task.h"

/*
 * What a rollout is run with, out of flags, the environment, .env, --config and defaults, in this
 * order of weight. `options` points into the other members and into argv.
 */
struct run_settings {
    struct task task; /* Zero for a batch. */
    struct endpoint endpoint;
    struct config config;
    struct rollout_options options;
};

/* Reads and checks everything; nothing is made and no network is asked. ERR_INPUT and ERR_USAGE. */
int run_settings_read(const struct args *a, struct run_settings *out, struct err *err) CHECK_RESULT;
/* The same without a task. */
int run_settings_read_flags(const struct args *a, struct run_settings *out,
                            struct err *err) CHECK_RESULT;
/* Lays the flags over the task's own network and limits. */
void run_settings_lay_over(const struct args *a, struct task *t);
void run_settings_deinit(struct run_settings *s);

/* Of the commands that run and end. */
#define RUN_OUTPUT_OPTIONS                                                                         \
    {"json", OPTION_SWITCH, NULL, "print the result as JSON on standard output, and nothing else", \
     NULL},                                                                                        \
    {                                                                                              \
        "quiet", OPTION_SWITCH, NULL, "print no progress and no summary", NULL                     \
    }

/* The flags that run_settings_read knows; NULL-named at the end. */
extern const struct option run_settings_options[];

/* Parts of it: what is not of the configuration or the endpoint (and neither of those two is set);
 * what the flags and the object of --config say of the endpoint. Borrows; `off` is kept. */
void run_settings_rollout(const struct args *a, struct rollout_options *out);
struct endpoint_args run_settings_endpoint(const struct args *a, const json_t *file,
                                           const json_t *flags, bool *off);

/* The object that the flags of the configuration's names stand for. The caller owns it. */
int run_settings_flags(const struct args *a, json_t **out, struct err *err) CHECK_RESULT;

#endif
