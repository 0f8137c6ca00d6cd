/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_TOOL_SETTINGS_H
#define SNAFFLE_CLI_TOOL_SETTINGS_H

#include "cli/settings.h"
#include "server/tool/tool.h"

/*
 * What the tool run_rollout is offered with, out of the flags of `run`, the environment, .env,
 * --config and defaults. `options` points into the other members and into argv.
 */
struct tool_settings {
    struct rollout_options rollout;
    struct task task; /* Network and limits only. */
    json_t *file;     /* --config. */
    json_t *config;   /* The same with the flags over it. */
    const char **allow;
    bool thinking_off;
    struct tool_options options;
};

/* Of the commands that offer the tool, besides run_settings_options. */
#define TOOL_SETTINGS_OPTIONS                                                                      \
    {"max-concurrent", OPTION_COUNT, "N",                                                          \
     "rollouts at once; further ones wait in their order (default: 4)", NULL},                     \
    {                                                                                              \
        "allow", OPTION_TEXT, "RULE",                                                              \
            "let calls ask for more: upstream=GLOB, network=full, backend=NAME, image=GLOB, "      \
            "flavor=GLOB; may be repeated",                                                        \
            NULL                                                                                   \
    }

/* Checks everything; nothing is made and no network is asked. ERR_INPUT and ERR_USAGE. `out` must
 * not be moved. */
int tool_settings_read(const struct args *a, struct tool_settings *out,
                       struct err *err) CHECK_RESULT;
void tool_settings_deinit(struct tool_settings *s); /* Accepts zero. */

#endif
