/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_SERVER_H
#define SNAFFLE_GUEST_SERVER_H

#include "guest/job.h"
#include "guest/kill_all.h"
#include "guest/loop.h"
#include "guest/watch.h"

/* A host's calls run side by side, one connection each: its waits, its heart and a few commands.
 * Each may hold a frame of the largest size. More wait in the listener's queue. */
#define SERVER_CONNS_MAX 64

/* The door `serve`: connections that speak frames. Zeroed, then server_init. */
struct server {
    struct loop *loop;
    struct jobs jobs;
    struct kill_all kill_all;
    struct watch_options limits;
    struct watch watch;
    int listen_fd;
    struct loop_watch listen_watch;
    struct conn *conns;
    unsigned n_conns;
    int64_t silence_ms; /* Without a beat for so long, once one came, the guest ends. */
    struct loop_timer silence;
    bool is_ending;
    int exit_status;
};

/* `listen_fd` is taken. */
int server_init(struct server *s, struct loop *loop, int listen_fd, struct err *err) CHECK_RESULT;
void server_deinit(struct server *s);

/* Kills all and leaves the loop. */
void server_end(struct server *s, int exit_status);

/* For connections. */
void server_beat(struct server *s);
void server_conn_gone(struct server *s);

#endif
