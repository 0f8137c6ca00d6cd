/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_FAKE_GROUND_H
#define SNAFFLE_TESTS_FAKE_GROUND_H

#include "agent/agent.h"
#include "rollout/factory.h"

/* Where rollouts in the fake sandbox are tried: a folder for their runs, and an agent that is one
 * program of the sandbox's own. */
struct fake_ground {
    char dir[64];
    char socket[96];
};

extern const struct agent fake_agent;

/* Also the options of a rollout there: run "run", recorded. `name` is part of the folder's. */
void fake_ground_set_up(struct fake_ground *g, const char *name, struct rollout_options *out);
void fake_ground_take_down(struct fake_ground *g);

#endif
