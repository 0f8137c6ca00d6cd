/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/agent.h"

#include <string.h>

static const struct agent *const agents[] = {&agent_opencode, &agent_command, NULL};

const char *const agent_names[] = {"opencode", "command", NULL};

const struct agent *agent_find(const char *name) {
    for (size_t i = 0; agents[i]; i++) {
        if (strcmp(agents[i]->name, name) == 0) {
            return agents[i];
        }
    }
    return NULL;
}
