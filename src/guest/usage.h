/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_USAGE_H
#define SNAFFLE_GUEST_USAGE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

/* How much of the machine is in use inside: what the guest's watch goes by. */

/* Processes counted by memory and threads, as far as /proc tells. */
struct usage_processes {
    uint64_t bytes; /* Anonymous memory, and shared memory or what /tmp and /dev/shm hold. */
    uint64_t threads;
};

/* `exact` shares pages out among those that share them; it costs the kernel a walk of each map. */
bool usage_processes(bool exact, struct usage_processes *out);

/* Whether the disk of that folder, or that tmpfs, has no room or no inode left. */
bool usage_is_full(int dir_fd);
bool usage_path_is_full(const char *path);

/* Deeper folders are not counted: each level of the walk holds a descriptor. */
#define USAGE_DEPTH_MAX 256

/* A folder's blocks, counted a piece at a time so that nobody waits for it. Zero is ready. */
struct usage_walk {
    DIR *levels[USAGE_DEPTH_MAX];
    unsigned depth;
    uint64_t bytes;
};

/* Looks at up to `entries` more; true when the folder is through and `bytes` is its size. After
 * that, or a failure to open it (0 bytes), the next call begins anew. */
bool usage_walk_step(struct usage_walk *w, int dir_fd, unsigned entries);

#endif
