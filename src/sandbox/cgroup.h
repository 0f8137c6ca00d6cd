/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_CGROUP_H
#define SNAFFLE_SANDBOX_CGROUP_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * A sandbox's control groups, of either version. Their paths follow from the sandbox's id, so they
 * are written down before any group is made: whoever sweeps after a dead owner finds them all.
 */
struct cgroup {
    bool is_v2;
    char *memory;    /* A folder; NULL: this machine, or this user, has none. */
    char *pids;      /* Likewise; in version 2 the same folder. */
    bool has_memory; /* Made, and the limit set. */
    bool has_pids;
};

/* Words for SNAFFLE_LOCAL_WITHOUT, which leaves out what this machine could do: for tests of what
 * other machines get. */
bool local_is_without(const char *mechanism);

/* Where the groups would stand; makes nothing. The names tell the owner: this process. */
int cgroup_name(const char *id, struct cgroup *out, struct err *err) CHECK_RESULT;

/* The paths as an array of strings, for a record. NULL when there is no memory. */
json_t *cgroup_paths(const struct cgroup *g);

/* Makes what can be made; `has_memory` and `has_pids` tell. */
void cgroup_make(struct cgroup *g, long memory_mb, long processes);
int cgroup_join(const struct cgroup *g, pid_t pid, struct err *err) CHECK_RESULT;

/* Whether the kernel killed for the memory limit, and refused a process for the other. */
bool cgroup_hit_memory(const struct cgroup *g);
bool cgroup_hit_pids(const struct cgroup *g);

/* The number behind `name` in "name number" lines; 0 when it is not there. */
unsigned long long cgroup_counter(const char *text, const char *name);

/* Every process in it must be dead. A missing group is success. */
int cgroup_remove_path(const char *path, struct err *err);
void cgroup_remove(struct cgroup *g);

/* Removes the groups of owners that are dead, whatever has become of their state folders. One that
 * still holds processes stays. */
void cgroup_sweep(void);
void cgroup_deinit(struct cgroup *g);

#endif
