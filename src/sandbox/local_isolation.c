/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/mem.h"
#include "sandbox/local.h"

/*
 * What really holds, said as it is. `strict` refuses what is not enforced before anything exists.
 */

#define ENFORCED "enforced"

enum { MEMORY, DISK };
static const struct {
    const char *name;
    const char *text;
} unenforced[] = {
    {"memory",
     "not_enforced: no memory control group can be made here (/tmp and /dev/shm are bounded)"},
    {"disk", "not_enforced: the home has no size of its own"},
};

int local_refuse_unenforced(const struct sandbox_spec *spec, struct err *err) {
    if (!spec->strict) {
        return 0;
    }
    return err_set(
        err, ERR_UNSUPPORTED,
        "the local backend does not enforce the disk limit (run without --strict to go on "
        "without it)");
}

json_t *local_isolation(const struct sandbox *s) {
    const struct local *l = (const struct local *)s;
    json_t *o = json_pack("{s:s, s:s, s:s}", "network", ENFORCED, "processes", ENFORCED, "user",
                          l->box.user.lock_fd >= 0
                              ? ENFORCED
                              : "shared: not started by root, so all sandboxes have your own uid");
    for (size_t i = 0; o && i < ARRAY_LEN(unenforced); i++) {
        bool holds = i == MEMORY && atomic_load(&l->has_memory_limit);
        json_t *text = json_string(holds ? ENFORCED : unenforced[i].text);
        if (json_object_set_new(o, unenforced[i].name, text) < 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}
