/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_UPSTREAM_H
#define SNAFFLE_GATEWAY_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sv.h"
#include "net/http1.h"
#include "net/loop.h"

/*
 * HTTP/1.1 exchanges with an engine over kept-alive connections. Loop thread only. There is no
 * time-out over the whole: generations take as long as they take.
 */
struct upstream_pool;
struct upstream;
struct tls_context;

/* uvicorn closes idle connections after 5 s; ours must leave first. */
#define UPSTREAM_IDLE_MS 4000
/* As many as a thousand rollouts in step can have; each costs the engine a descriptor. */
#define UPSTREAM_IDLE_MAX 1024u

int upstream_pool_new(struct loop *l, struct upstream_pool **out, struct err *err) CHECK_RESULT;
/* When no exchange is under way. Accepts NULL. */
void upstream_pool_free(struct upstream_pool *p);

struct upstream_events {
    /* The final answer's head, valid during the call. */
    void (*on_head)(void *arg, const struct http1_head *head);
    void (*on_body)(void *arg, struct sv payload);
    /* What one read brought was all given: time to send it on. `is_end`: on_end follows at once. */
    void (*on_flush)(void *arg, bool is_end);
    /* The answer's proper end. The exchange is over and must be forgotten. */
    void (*on_end)(void *arg);
    /* No answer (ERR_CONNECT, ERR_DENIED, ERR_TIMEOUT, ERR_PROTOCOL, ERR_CLOSED), or one cut off.
     * As on_end. */
    void (*on_fail)(void *arg, const struct err *err);
};

struct upstream_options {
    const char *host; /* Kept until the end, as are `head` and `body`. */
    uint16_t port;
    struct tls_context *tls;
    bool is_strangers; /* As dial.h has it. */
    struct sv head;    /* The request's whole head. */
    struct sv body;
    int64_t connect_timeout_ms;
    int64_t header_timeout_ms; /* From the request's sending to the answer's head; 0: none. */
    const struct upstream_events *events;
    void *arg;
};

/* Sends the request on an idle connection or a new one. A reused connection that turns out dead
 * before any answer byte is replaced once, by a new one. No callback comes from inside. */
int upstream_start(struct upstream_pool *p, const struct upstream_options *o, struct upstream **out,
                   struct err *err) CHECK_RESULT;

void upstream_pause(struct upstream *u);
void upstream_resume(struct upstream *u);

/* Closes the connection at once, so that the engine stops generating; no callback comes after. May
 * be called from inside one. Accepts NULL. */
void upstream_cancel(struct upstream *u);

#endif
