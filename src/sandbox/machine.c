/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/mem.h"
#include "sandbox/sandbox.h"

int sandbox_machine_check_none(const struct sandbox_machine *m, const char *backend,
                               struct err *err) {
    const struct {
        const char *field;
        bool is_set;
    } fields[] = {
        {"image", m->image},
        {"flavor", m->flavor},
        {"namespace", m->namespace},
        {"env", json_object_size(m->env) > 0},
        {"secrets", json_object_size(m->secrets) > 0},
        {"volumes", json_array_size(m->volumes) > 0},
        {"start_timeout_s", m->start_s > 0},
        {"forward_hf_token", m->forward_token},
    };
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (fields[i].is_set) {
            return err_set(err, ERR_INPUT, "%s: the backend '%s' takes none (--backend hf does)",
                           fields[i].field, backend);
        }
    }
    if (m->user && strcmp(m->user, "root") == 0) {
        return err_set(err, ERR_INPUT, "agent_user: nothing is root in a sandbox of '%s'", backend);
    }
    return 0;
}
