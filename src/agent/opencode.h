/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_AGENT_OPENCODE_H
#define SNAFFLE_AGENT_OPENCODE_H

#include "agent/plan.h"

/* The parts of the OpenCode adapter. What is said of OpenCode here was seen with 1.18.33. */

#define OPENCODE_VERSION "1.18.33"

/* Below the home. */
#define OPENCODE_CONFIG_DIR "/.config/opencode"
#define OPENCODE_CONFIG_FILE OPENCODE_CONFIG_DIR "/opencode.json"
#define OPENCODE_CATALOGUE_FILE OPENCODE_CONFIG_DIR "/models.json"
#define OPENCODE_SYSTEM_FILE "/task/system.md"
#define OPENCODE_WORKDIR "/workdir"

/* How OpenCode's own switches express which tools there are. The three tools that change files hang
 * on one switch, so a choice among them is made by a plugin, which is only placed when needed. */
struct opencode_tools {
    json_t *switches;  /* The config's `tools`: {name: bool}. */
    struct buf plugin; /* Its source; empty: none is needed. */
};

int opencode_tools_build(const struct agent_config *config, struct opencode_tools *out,
                         struct err *err) CHECK_RESULT;
void opencode_tools_deinit(struct opencode_tools *t);

/* Gives the whole config file's value. */
int opencode_config_build(const struct agent_config *config, const struct agent_job *job,
                          const json_t *tools, json_t **out, struct err *err) CHECK_RESULT;

/* Fills the plan's env: all of the environment, nothing is inherited. `plugins`: load them. */
int opencode_env_build(const struct agent_config *config, const struct agent_job *job, bool plugins,
                       struct agent_plan *p, struct err *err) CHECK_RESULT;

enum agent_call opencode_classify(const json_t *request, struct sv session, struct sv parent);

#endif
