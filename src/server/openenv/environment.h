/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_OPENENV_ENVIRONMENT_H
#define SNAFFLE_SERVER_OPENENV_ENVIRONMENT_H

#include <jansson.h>

#include "base/sv.h"
#include "server/tool/tool.h"

/* What OpenEnv calls an environment: an episode's state, which the tool's calls move. */

#define EPISODE_ID_MAX 255 /* Characters; OpenEnv's own limit. */
#define UUID_TEXT_MAX 37   /* With its NUL. */

struct environment {
    char *episode_id;
    unsigned long long step_count; /* Calls of the tool, whatever came of them. */
    unsigned long long rollouts_completed;
    bool has_reward;
    double last_reward;
    char *last_task_id;
    char *last_sandbox_id;
};

/* Begins an episode. `id`: empty for a fresh one. ERR_NOMEM leaves the old one. */
int environment_reset(struct environment *e, struct sv id) CHECK_RESULT;
void environment_deinit(struct environment *e);

void environment_note(struct environment *e, const struct tool_result *r);

/* The caller owns it; NULL: no memory. */
json_t *environment_state(const struct environment *e);

void uuid_make(char out[UUID_TEXT_MAX]); /* Version 4. */

#endif
