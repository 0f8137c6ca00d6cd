/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/mem.h"
#include "guest/protocol.h"
#include "sandbox/local.h"

/* The limits of a life: which mechanism holds each, and which were hit. */

#define ASK_S 10.0 /* A guest that is stuck is not waited for longer. */

/* Bits of l->hits above the guest's own. */
#define HIT_KERNEL_MEMORY (1u << 16)
#define HIT_KERNEL_PROCESSES (1u << 17)

struct sandbox_limits local_limits(const struct sandbox_limits *wanted) {
    return (struct sandbox_limits){
        .memory_mb = wanted->memory_mb ? wanted->memory_mb : LOCAL_MEMORY_MB_DEFAULT,
        .processes = wanted->processes ? wanted->processes : LOCAL_PROCESSES_DEFAULT,
        .disk_mb = wanted->disk_mb ? wanted->disk_mb : LOCAL_DISK_MB_DEFAULT,
    };
}

void local_limits_set(struct local *l, const struct sandbox_spec *spec) {
    struct sandbox_limits limits = local_limits(&spec->limits);
    struct cgroup *g = &l->box.cgroup;
    cgroup_make(g, limits.memory_mb, limits.processes);
    atomic_store(&l->holds, (g->has_memory ? LOCAL_HOLDS_MEMORY : 0) |
                                (g->has_pids ? LOCAL_HOLDS_PROCESSES : 0) |
                                (l->box.disk.loop_fd >= 0 ? LOCAL_HOLDS_DISK : 0));
}

/* What the kernel counted; it forgets with the group. */
void local_limits_keep(struct local *l) {
    const struct cgroup *g = &l->box.cgroup;
    unsigned hits = (cgroup_hit_memory(g) ? HIT_KERNEL_MEMORY : 0) |
                    (cgroup_hit_pids(g) ? HIT_KERNEL_PROCESSES : 0);
    atomic_fetch_or(&l->hits, hits);
}

void local_limits_ask(struct local *l) {
    uint64_t seen = 0;
    if (l->life.pidfd >= 0 && guest_limits(&l->guest, deadline_in_s(ASK_S), &seen, NULL) == 0) {
        atomic_fetch_or(&l->hits, (unsigned)seen & (HIT_KERNEL_MEMORY - 1));
    }
    local_limits_keep(l);
}

json_t *local_limits_hit(const struct local *l) {
    static const struct {
        unsigned bit;
        const char *limit;
        const char *how;
    } texts[] = {
        /* The surer one of a limit comes later. */
        {PROTOCOL_LIMIT_MEMORY, "memory", "the watchdog killed all that ran"},
        {HIT_KERNEL_MEMORY, "memory", "the kernel killed a program for it"},
        {PROTOCOL_LIMIT_PROCESSES, "processes", "as many ran as may"},
        {HIT_KERNEL_PROCESSES, "processes", "the kernel refused another"},
        {PROTOCOL_LIMIT_SCRATCH_FULL, "disk", "/tmp or /dev/shm was full"},
        {PROTOCOL_LIMIT_HOME_FULL, "disk", "the home was full"},
        {PROTOCOL_LIMIT_HOME_OVER, "disk", "the home grew beyond it, and all that ran was killed"},
    };
    unsigned hits = atomic_load(&l->hits);
    json_t *o = json_object();
    for (size_t i = 0; o && i < ARRAY_LEN(texts); i++) {
        if ((hits & texts[i].bit) &&
            json_object_set_new(o, texts[i].limit, json_string(texts[i].how)) < 0) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}
