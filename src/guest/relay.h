/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_RELAY_H
#define SNAFFLE_GUEST_RELAY_H

#include <stdint.h>
#include <sys/un.h>

#include "base/err.h"
#include "guest/loop.h"

/*
 * The model's way out: each connection to 127.0.0.1:port becomes one connection to a unix socket,
 * byte for byte, both ways, each way closed by itself. A slow side holds the other back.
 *
 * What is no clean end is not made one. A reset from inside closes the unix socket whole, without
 * the half close of a clean end; a unix socket closed whole before it was closed by half, and one
 * that was reset, resets the connection inside.
 */

/* An agent holds a handful of calls open. Each pair takes two descriptors, and with both ways
 * blocked 128 KiB; the descriptor limit may lower it. */
#define RELAY_PAIRS_MAX 1024

struct relay_pair;

struct relay {
    struct loop *loop;
    int listen_fd;
    struct loop_watch listen_watch;
    struct sockaddr_un target;
    struct relay_pair *first;
    unsigned n;
    unsigned max;
};

/* `max` pairs at most (0: RELAY_PAIRS_MAX). */
struct relay_options {
    uint16_t port;
    const char *socket_path;
    unsigned max;
};

int relay_open(struct relay *relay, struct loop *loop, const struct relay_options *options,
               struct err *err) CHECK_RESULT;
void relay_close(struct relay *relay); /* Resets what is open. */

#endif
