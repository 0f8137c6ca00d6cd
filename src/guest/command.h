/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_COMMAND_H
#define SNAFFLE_GUEST_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sv.h"
#include "guest/child_env.h"

/* What a start frame asks for, checked and made ready: the words are copies, the folder and the
 * files of output are open. Release with command_deinit. */
struct command {
    struct words argv;
    struct words env;
    int cwd_fd;
    int stdout_fd; /* Detached only: -1 for /dev/null. */
    int stderr_fd; /* May be the same file opened twice. */
    bool is_detached;
    bool has_input;
    uint64_t timeout_ms; /* 0: none. */
    uint32_t user;       /* Its uid and gid, without a way to gain more; 0: the guest's own. */
    char *clean_home;    /* The empty folder made for it, or NULL. */
};

/* `dir_fd`: what relative paths count from. */
int command_parse(struct sv fields, int dir_fd, struct command *out, struct err *err) CHECK_RESULT;
void command_deinit(struct command *c); /* Removes the clean home if nothing is in it. */

#endif
