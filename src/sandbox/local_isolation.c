/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "sandbox/local.h"

/*
 * What really holds, said as it is: "enforced: ..." is held by the kernel, at every moment. Others
 * are looked at now and then, and `strict` refuses them before anything runs.
 */

#define ENFORCED "enforced"

int local_refuse_unenforced(const struct local *l, const struct sandbox_spec *spec,
                            struct err *err) {
    unsigned holds = atomic_load(&l->holds);
    const char *lacking = !(holds & LOCAL_HOLDS_MEMORY) ? "memory"
                          : !(holds & LOCAL_HOLDS_DISK) ? "disk"
                                                        : NULL;
    if (!spec->strict || !lacking) {
        return 0;
    }
    return err_set(err, ERR_UNSUPPORTED,
                   "the %s limit is only watched on this machine, not enforced (see `snaffle "
                   "doctor`; run without --strict to go on so)",
                   lacking);
}

static json_t *memory_text(const struct local *l, unsigned holds) {
    if (holds & LOCAL_HOLDS_MEMORY) {
        return json_sprintf(ENFORCED ": control group v%d", l->box.cgroup.is_v2 ? 2 : 1);
    }
    return json_string("watchdog: no memory control group can be made here, so memory is added up "
                       "four times a second, and above the limit all is killed");
}

static json_t *processes_text(const struct local *l, unsigned holds) {
    if (holds & LOCAL_HOLDS_PROCESSES) {
        return json_sprintf(ENFORCED ": control group v%d and RLIMIT_NPROC",
                            l->box.cgroup.is_v2 ? 2 : 1);
    }
    return json_string(ENFORCED ": RLIMIT_NPROC");
}

static json_t *disk_text(const struct local *l, unsigned holds) {
    if (holds & LOCAL_HOLDS_DISK) {
        return json_string(ENFORCED ": the home is a disk image of its own");
    }
    return json_sprintf("counted: %s, so the home's files are added up every second, and above the "
                        "limit all is killed",
                        l->box.disk.why_not);
}

json_t *local_isolation(const struct sandbox *s) {
    const struct local *l = (const struct local *)s;
    unsigned holds = atomic_load(&l->holds);
    json_t *o = json_pack("{s:s, s:o, s:o, s:o, s:s, s:s}", "network", ENFORCED, "processes",
                          processes_text(l, holds), "memory", memory_text(l, holds), "disk",
                          disk_text(l, holds), "user",
                          l->box.user.lock_fd >= 0
                              ? ENFORCED
                              : "shared: not started by root, so all sandboxes have your own uid",
                          "reward", ENFORCED ": in a second sandbox over the same home");
    if (o && l->image.name &&
        json_object_set_new(o, "rootfs", json_text(sv_from(l->image.name))) < 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}
