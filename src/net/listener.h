/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_LISTENER_H
#define SNAFFLE_NET_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/conn.h"
#include "net/loop.h"

/* Accepts connections on a loop. Made and freed from any thread. */
struct listener;

/* A burst of 4,000 connects took 12 s with 128 (SYN retries) and 1 s with this. */
#define LISTENER_BACKLOG 4096

struct listener_options {
    const char *host;      /* Numeric address or name; NULL: 127.0.0.1. */
    uint16_t port;         /* 0: the kernel picks; see listener_port. */
    bool shares_port;      /* With other listeners that do: the kernel deals connections out. */
    const char *unix_path; /* In place of host and port. */
    unsigned unix_mode;    /* Of the inode; 0: 0600. */
    int fd;                /* > 0: a listening, non-blocking socket of the caller's, taken. */
    /* Runs on the loop's thread; takes `c`, paused and without events. */
    void (*on_accept)(struct conn *c, void *arg);
    void *arg; /* Kept. */
};

int listener_new(struct loop *l, const struct listener_options *o, struct listener **out,
                 struct err *err) CHECK_RESULT;
uint16_t listener_port(const struct listener *s); /* 0 for unix. */

/* Takes what waits already, then listens no more. Loop thread only. */
void listener_drain(struct listener *s);

/* No on_accept runs after it returns. The unix inode is removed. Accepts NULL. */
void listener_free(struct listener *s);

#endif
