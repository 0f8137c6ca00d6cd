/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_SERVER_INTERNAL_H
#define SNAFFLE_NET_SERVER_INTERNAL_H

#include "net/listener.h"
#include "net/server.h"

/* server.c reads requests, exchange.c writes answers. */

enum client_state {
    CLIENT_IDLE, /* No byte of a request yet. */
    CLIENT_HEAD, /* Some. */
    CLIENT_BODY,
    CLIENT_ANSWER, /* The handler has it. */
};

struct client {
    struct server *server;
    struct conn *conn;
    struct client *prev, *next;
    enum client_state state;
    struct http1_head_parser parser;
    struct http1_body body;
    struct exchange *exchange; /* From CLIENT_BODY on. */
    struct buf early;          /* Came behind the request that is being answered. */
    struct sv behind;          /* The same while its handler runs for the first time. */
    struct timer *timer;
    size_t held;     /* Of server.held. */
    bool processing; /* client_process is on the stack. */
    bool gone;       /* Its connection was given up; freed when the stack is off it. */
};

struct server {
    struct loop *loop;
    struct server_options options;
    struct listener *listener;
    bool draining;
    struct client *clients; /* The newest first. */
    struct client *oldest;
    unsigned n_clients;
    size_t held; /* Bytes of requests in memory. */
};

enum answer_mode { ANSWER_NONE, ANSWER_RAW, ANSWER_BODY };

struct exchange {
    struct loop *loop;
    struct client *client; /* NULL once the client is gone. */
    struct http1_head head;
    struct buf raw; /* The head's bytes. */
    struct buf body;
    enum answer_mode mode;
    enum http1_framing framing;
    uint64_t left;   /* Of a declared length. */
    bool no_payload; /* HEAD, 204, 304: a body is not sent. */
    bool keep;
    bool broken; /* Some of it could not be written: it has no end. */
    struct timer *timer;
    void (*after_fn)(struct exchange *x, void *arg);
    void *after_arg;
    void (*gone_fn)(struct exchange *x, void *arg);
    void *gone_arg;
    void (*drain_fn)(struct exchange *x, void *arg);
    void *drain_arg;
};

/* The exchange is over: on to the next request, or finish the connection. */
void client_next(struct client *c, bool keep);
/* Leaves the list; its connection has been given away, finished or aborted. */
void client_release(struct client *c);
void exchange_lose_client(struct exchange *x);
void exchange_free(struct exchange *x);

#endif
