/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_DISK_H
#define SNAFFLE_SANDBOX_DISK_H

#include <stdbool.h>

/*
 * A home with a size: an ext4 image beside the home, on a loop device. It is mounted over the home
 * by the child that becomes bwrap, in a mount namespace of its own (spawn_child.c): so the mount
 * ends with the sandbox's processes, however they end, and the host never sees it. The device is
 * ours while we live, so that each life of the sandbox mounts the same one, and detaches itself
 * after its last user.
 */
struct disk {
    int loop_fd;       /* -1: there is none; the home is a plain folder. */
    char device[32];   /* "/dev/loop7" */
    bool is_used;      /* It was mounted once. */
    char why_not[128]; /* When there is none, in words that fit "counted: ..., so". */
};

/* Never fails: without a disk `why_not` says why. `state` holds the templates, one a size; `image`
 * is the file to make. */
void disk_make(const char *state, const char *image, long mb, struct disk *out);

/* Lets the device go, after the last process of the sandbox. */
void disk_deinit(struct disk *d);

#endif
