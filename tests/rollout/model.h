/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_ROLLOUT_MODEL_H
#define SNAFFLE_TESTS_ROLLOUT_MODEL_H

#include <sys/types.h>

#include "tests/rollout/ground.h"

/* The scripted model as a process, which the ground's configuration then names. */
struct model {
    pid_t pid;
    char log[128];
    char url[64];
};

void model_start(struct model *m, struct ground *g, const char *script);
void model_stop(struct model *m);

#endif
