/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_GATEWAY_ENGINE_H
#define SNAFFLE_TESTS_GATEWAY_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/sv.h"

/*
 * A test's model engine: plain blocking sockets and a thread a connection, so that a test says byte
 * by byte what goes over the wire and when.
 */
struct engine;

struct engine_request {
    int fd;
    unsigned number;        /* Of the request, from 1, over all connections. */
    unsigned connection;    /* From 1. */
    unsigned on_connection; /* Of the request on its connection, from 1. */
    struct sv head;
    struct sv body;
    bool close; /* Set by the answer: the connection ends behind it. */
    bool reset; /* With a reset. */
};

typedef void (*engine_fn)(struct engine_request *r, void *arg);

struct engine *engine_start(engine_fn fn, void *arg);
const char *engine_url(const struct engine *e); /* "http://127.0.0.1:PORT/v1" */
unsigned engine_requests(struct engine *e);
void engine_stop(struct engine *e);

/* Writing an answer. They give false once the peer is gone. */
bool engine_write(struct engine_request *r, struct sv bytes);
bool engine_puts(struct engine_request *r, const char *text);
bool engine_chunk(struct engine_request *r, struct sv payload);
bool engine_sse_head(struct engine_request *r);              /* Chunked. */
bool engine_sse(struct engine_request *r, const char *body); /* Head, one chunk, end. */
bool engine_json(struct engine_request *r, int status, const char *body);
/* Waits for the peer's end or reset; false when it does not come within `ms`. */
bool engine_peer_left(struct engine_request *r, int ms);

#endif
