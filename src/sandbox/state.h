/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_STATE_H
#define SNAFFLE_SANDBOX_STATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * The state directory: what Snaffle keeps on this machine between runs. $SNAFFLE_STATE, else
 * /var/lib/snaffle for root, else $XDG_STATE_HOME/snaffle, else ~/.local/state/snaffle.
 *
 *     guest/<sha256>        the guest, readable by every user
 *     images/               empty disk images, one a size, to be copied
 *     images/<sha256>/      one an unpacked image (image.h)
 *     uids/<n>              one a host uid; locked while a sandbox has it
 *     sandboxes/<id>/       one a sandbox (box.h)
 *
 * Folders are 0711: the sandbox's user passes through all of them, and no name can be listed.
 */

/* Gives the directory's absolute path, made where missing and checked: owned by us, writable by
 * nobody else, and every folder above lets the sandbox's user through. The caller frees. */
int state_dir(char **out, struct err *err) CHECK_RESULT;

/* Where it is to be, as it is named: nothing is made or checked. The caller frees; NULL: nowhere,
 * or no memory. */
char *state_place(void);

/* Gives the path of the guest's copy in `dir`, made where missing. The program itself is looked for
 * at $SNAFFLE_GUEST, else beside the running program, where the build and where an installation put
 * it. The caller frees. */
int state_guest(const char *dir, char **out, struct err *err) CHECK_RESULT;

/* ERR_ENVIRONMENT, naming the folder and the remedy, if a folder above `path` keeps `uid` out. */
int state_check_passable(const char *path, uid_t uid, struct err *err) CHECK_RESULT;

/* Gives the path of the static gateway: $SNAFFLE_GATEWAY_PROGRAM, else beside the running program
 * as the guest. The caller frees. */
int state_gateway(char **out, struct err *err) CHECK_RESULT;

#define STATE_UID_FIRST                                                                            \
    1900000000u                /* Far above what systems give people, services, containers.        \
                                */
#define STATE_UID_COUNT 65536u /* More sandboxes than one machine runs. */

/* A host uid that no other sandbox has. All but `uid` is private to state_uid.c. */
struct state_uid {
    uid_t uid;
    int lock_fd; /* -1: an ordinary user's own uid, which all its sandboxes share. */
};

/* As root, takes a uid of its own for the sandbox `id`; otherwise gives the caller's. The uid goes
 * back by state_uid_release, or when this process dies and the sandbox has been swept. */
int state_uid_take(const char *dir, const char *id, struct state_uid *out,
                   struct err *err) CHECK_RESULT;

/* `clean`: nothing of it is left. If not, it stays taken until the sandbox has been swept. */
void state_uid_release(struct state_uid *u, bool clean);

#endif
