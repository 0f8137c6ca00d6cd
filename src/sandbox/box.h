/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_BOX_H
#define SNAFFLE_SANDBOX_BOX_H

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/disk.h"
#include "sandbox/sandbox.h"
#include "sandbox/state.h"

/*
 * A box is what a local sandbox has on disk, in <state>/sandboxes/<id>/. The living owner holds a
 * flock of that folder, which opens by itself when the owner dies. In it:
 *
 *     record.json   labels, uid, control groups, first process: what `list` and `sweep` go by
 *     home/         the agent's home, owned by the box's uid, 0700; or what `home.ext4` is mounted
 *                   on inside
 *     home.ext4     the home's disk image, where there can be one
 *     model/        the folder that shows the gateway's socket inside
 *     guest.sock    where the guest listens; never seen inside
 *
 * The id is random and the folder above can't be listed, so that no other user finds the home.
 */
struct box {
    char *id;
    char *dir;
    char *home;
    char *model;
    char *guest_socket;
    struct cgroup cgroup;
    struct disk disk;
    struct state_uid user;
    int lock_fd;
    json_t *record;
};

#define BOX_NONE ((struct box){.lock_fd = -1, .user = {.lock_fd = -1}, .disk = {.loop_fd = -1}})

/* bwrap runs under this name, with the id behind it: so people see whose it is, and a sweep finds
 * it. What serves a sandbox from outside has one that begins so, with "-" behind the id. */
#define BOX_PROCESS_NAME "snaffle-sandbox-"

/* Makes the box and locks it; the disk's size is the spec's. Nothing is left after a failure. */
int box_make(const char *state, const struct sandbox_spec *spec, struct box *out,
             struct err *err) CHECK_RESULT;

/* Does without the disk that it has. */
void box_drop_disk(struct box *b, const char *why);

/* Writes down the first process, so that a sweep finds it if this process dies. */
int box_note_process(struct box *b, pid_t pid, struct err *err) CHECK_RESULT;

/* Removes it from disk and frees its uid. Every process of the box must be dead. */
int box_remove(struct box *b, struct err *err);

/* Frees the memory and unlocks; the directory stays unless it was removed. */
void box_deinit(struct box *b);

int box_list(const char *state, const char *run, json_t **out, struct err *err) CHECK_RESULT;
int box_sweep(const char *state, const char *run, bool dry_run, unsigned *removed,
              struct err *err) CHECK_RESULT;

/* Where the guest of a box listens that is there. ERR_NOT_FOUND. The caller frees. */
int box_guest_socket(const char *state, const char *id, char **out, struct err *err) CHECK_RESULT;

/* Ends a box's processes, seen dead; removes the box if its owner is dead. ERR_NOT_FOUND; ERR_STATE
 * when it is between two lives. */
int box_end(const char *state, const char *id, bool *was_alive, struct err *err) CHECK_RESULT;

#endif
