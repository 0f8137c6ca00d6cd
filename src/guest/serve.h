/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_SERVE_H
#define SNAFFLE_GUEST_SERVE_H

#include <stdint.h>

#include "base/err.h"
#include "guest/watch.h"

/* The door `serve`: frames on the connections of an inherited listening socket. */
struct serve_options {
    int listen_fd;
    int ready_fd;             /* One byte is written there once calls are answered; -1: none. */
    const char *model_socket; /* NULL: nothing listens at the model's port. */
    uint16_t model_port;      /* 0: 7000. */
    unsigned long processes;  /* 0: as it is. */
    int64_t silence_ms;       /* 0: 90 s. */
    struct watch_options limits;
};

/* Serves until told to end. Gives the exit status: 0 when told by a signal, 4 when its host fell
 * silent. */
int serve(const struct serve_options *options, struct err *err) CHECK_RESULT;

#endif
