/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_GUEST_CLIENT_H
#define SNAFFLE_SANDBOX_GUEST_CLIENT_H

#include "sandbox/sandbox.h"

/*
 * The host's end of the guest protocol (docs/internals/guest-protocol.md). Every call makes a
 * connection of its own to the guest, so calls may run side by side from any thread and one that is
 * cut leaves the others alone. The guest's answers are foreign bytes: bounded and checked.
 */

/* Gives a connected stream; the caller of `connect` closes it. ERR_LOST when the guest is gone. */
typedef int (*guest_connect_fn)(void *arg, int *out_fd, struct err *err);

struct guest_client {
    guest_connect_fn connect;
    void *arg;
    const struct cancel *torn_down; /* Thrown when the sandbox ends: calls give ERR_LOST. */
};

/* Says hello; ERR_PROTOCOL when the major version is another. Also the answer to "are you up?". */
int guest_hello(const struct guest_client *g, deadline_ms until, const struct cancel *cancel,
                struct err *err) CHECK_RESULT;

/* A connection that is kept and beaten every 15 s by guest_beat; without it for 90 s the guest
 * kills all and ends. */
int guest_beat(const struct guest_client *g, struct err *err) CHECK_RESULT;

int guest_exec(const struct guest_client *g, const struct sandbox_exec *what,
               struct sandbox_output *out, struct err *err) CHECK_RESULT;

/* A started job is known by its number, which is unique within the guest's life. */
int guest_start(const struct guest_client *g, const struct sandbox_exec *what, uint32_t *out_job,
                struct err *err) CHECK_RESULT;
int guest_wait(const struct guest_client *g, uint32_t job, deadline_ms until,
               const struct cancel *cancel, int *exit_code, struct err *err) CHECK_RESULT;
int guest_kill(const struct guest_client *g, uint32_t job, struct err *err) CHECK_RESULT;
int guest_kill_all(const struct guest_client *g, deadline_ms until, struct err *err) CHECK_RESULT;
int guest_write_file(const struct guest_client *g, const char *path, struct sv content,
                     unsigned mode, struct err *err) CHECK_RESULT;
int guest_read_file(const struct guest_client *g, const char *path, uint64_t offset, size_t length,
                    struct buf *out, struct err *err) CHECK_RESULT;
/* PROTOCOL_LIMIT_* bits of the guest's life so far. A guest that does not know of them has none. */
int guest_limits(const struct guest_client *g, deadline_ms until, uint64_t *out,
                 struct err *err) CHECK_RESULT;
int guest_exists(const struct guest_client *g, const char *path, struct err *err) CHECK_RESULT;

#endif
