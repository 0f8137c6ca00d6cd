/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_WEBSOCKET_H
#define SNAFFLE_NET_WEBSOCKET_H

#include "net/server.h"
#include "net/websocket_codec.h"

/*
 * A WebSocket that a client of our server opened, of text messages. Pings are answered at any time;
 * a peer of which nothing is heard after a ping of ours counts as gone. Loop thread only; no
 * callback runs from inside a call of the owner.
 *
 *     static void on_text(struct websocket *w, struct sv text, void *arg) {
 *         if (websocket_send(w, text) < 0) { ... }
 *     }
 */
struct websocket;

/* Of one message. The largest task with its files is far below; our own tests send 20 MB. */
#define WEBSOCKET_MESSAGE_MAX (32u * 1024 * 1024)
/* Between our pings, and the time for an answer; the Python clients ping as often. */
#define WEBSOCKET_PING_MS 20000

struct websocket_options {
    size_t message_max;                                              /* 0: WEBSOCKET_MESSAGE_MAX. */
    int64_t ping_ms;                                                 /* 0: WEBSOCKET_PING_MS. */
    void (*on_text)(struct websocket *w, struct sv text, void *arg); /* Valid during the call. */
    /* The peer closed, broke the protocol or is lost. Once, and last: `w` must be forgotten. */
    void (*on_gone)(struct websocket *w, void *arg);
    void *arg; /* Kept. */
};

bool websocket_is_asked(const struct exchange *x); /* It asks to become one. */

/* Takes the exchange in every case: one that can't become a WebSocket is answered 400 or 426
 * (ERR_PROTOCOL). Callbacks come after the call. */
int websocket_accept(struct exchange *x, const struct websocket_options *o, struct websocket **out,
                     struct err *err) CHECK_RESULT;

/* A whole message of valid UTF-8. ERR_CLOSED when the other end is (on_gone comes or came),
 * ERR_LIMIT above CONN_QUEUE_MAX of unsent bytes. */
int websocket_send(struct websocket *w, struct sv text) CHECK_RESULT;

size_t websocket_unsent(const struct websocket *w); /* Bytes that wait for the peer. */

/* Says why and ends it; no callback comes any more, and `w` must be forgotten. */
void websocket_close(struct websocket *w, enum websocket_status status, struct sv reason);

#endif
