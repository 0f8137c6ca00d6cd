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
    const char *host;      /* NULL: 127.0.0.1. */
    uint16_t port;         /* 0: any; said on stdout. */
    const char *unix_path; /* One session: listen there too. NULL: not. */
    unsigned workers;      /* 0: 1. */
    const char *journal_dir;
    bool durable;
    bool keep_raw;
    bool forget;        /* The records of a session go when an admin deletes it. */
    const char *engine; /* What the upstreams are; NULL: each is asked. */
    const char *trace;  /* One session: each call's line is appended there. NULL: none. */
    bool logprobs_processed;
    const char *const *upstreams; /* NULL-ended; engines of one model. */
    const char *upstream_file;    /* Their URLs, one a line, read again on SIGHUP. NULL: none. */
    bool sessions;                /* Many, opened by an admin. */
    bool openenv_sessions;        /* A session's id is its token. */
    const char *key;              /* The admin's, or of one session the agent's. NULL: none. */
    bool allow_anonymous;         /* Serve without a key, wherever it listens. */
    double drain_s;               /* How long open calls may go on after a signal. */
    /* What a session has that does not say otherwise. Name, token and upstream are set here. */
    struct gateway_session_options session;
};

/* Serves until SIGTERM or SIGINT, then lets open calls end; a second one aborts them. Prints one
 * line to stdout when it listens. The process's signals and standard output are its. */
int capture_run(const struct capture_options *o, struct err *err) CHECK_RESULT;

#endif
