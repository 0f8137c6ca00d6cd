/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/agents.h"

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/state.h"

int rollout_agents_dir(char **out, struct err *err) {
    AUTO_FREE char *state = NULL;
    int r = state_dir(&state, err);
    if (r < 0) {
        return r;
    }
    *out = file_join(state, "agents");
    return *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}
