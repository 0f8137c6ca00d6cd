/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_BOX_H
#define SNAFFLE_SANDBOX_BOX_H

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/sandbox.h"
#include "sandbox/state.h"

/*
 * A box is what a local sandbox has on disk, in <state>/sandboxes/<id>/:
 *
 *     lock          flock held by the living owner; it opens by itself when the owner dies
 *     record.json   labels, uid, first process: what `list` and `sweep` go by
 *     home/         the agent's home, owned by the box's uid, 0700
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
    struct state_uid user;
    int lock_fd;
    json_t *record;
};

/* bwrap runs under this name, with the id behind it: so people see whose it is, and a sweep finds
 * it. */
#define BOX_PROCESS_NAME "snaffle-sandbox-"

/* Makes the box and locks it; nothing is left after a failure. */
int box_make(const char *state, const struct sandbox_spec *spec, struct box *out,
             struct err *err) CHECK_RESULT;

/* Writes down the first process and its control group (NULL: none), so that a sweep finds them if
 * this process dies. */
int box_note_process(struct box *b, pid_t pid, const char *cgroup, struct err *err) CHECK_RESULT;

/* Removes it from disk and frees its uid. Every process of the box must be dead. */
int box_remove(struct box *b, struct err *err);

/* Frees the memory and unlocks; the directory stays unless it was removed. */
void box_deinit(struct box *b);

int box_list(const char *state, const char *run, json_t **out, struct err *err) CHECK_RESULT;
int box_sweep(const char *state, const char *run, bool dry_run, unsigned *removed,
              struct err *err) CHECK_RESULT;

#endif
