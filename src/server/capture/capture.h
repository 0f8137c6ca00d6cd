/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_CAPTURE_CAPTURE_H
#define SNAFFLE_SERVER_CAPTURE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gateway/gateway.h"

/*
 * The gateway as a program of its own: one session in the place of another capturing proxy, or many
 * that an admin opens and ends over HTTP.
 */
struct capture_options {
    const char *host; /* NULL: 127.0.0.1. */
    uint16_t port;    /* 0: any; said on stdout. */
    const char *journal_dir;
    bool durable;
    bool keep_raw;
    /* What a session has that does not say otherwise. Its name is set here. */
    struct gateway_session_options session;
};

/* Serves until SIGTERM or SIGINT, then lets open calls end. Prints one line to stdout when it
 * listens. The process's signals and standard output are its. */
int capture_run(const struct capture_options *o, struct err *err) CHECK_RESULT;

#endif
