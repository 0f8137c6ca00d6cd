/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_CONN_H
#define SNAFFLE_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sv.h"
#include "net/loop.h"

/*
 * A non-blocking stream: TCP or unix, plain or TLS. Loop thread only. Reading is paused until
 * conn_read_resume. Listeners and dials give connections; their owner sets the events, and ends
 * each with exactly one of conn_finish and those below it, after which no callback
 * comes and the pointer must be forgotten. on_gone does not end it: the owner still calls
 * conn_abort.
 *
 * No callback runs from inside a call of the owner. Memory is freed after the event batch.
 */
struct conn;
struct tls;

/* One read gives up to this; the buffer is shared by the loop's connections. Reads of 4 KB cost
 * half to three quarters of a proxy's throughput. */
#define CONN_READ_MAX (64u * 1024)
/* Above this the writer should pause its source: a slow reader costs this much and no more. */
#define CONN_QUEUE_HIGH (256u * 1024)
/* A whole request of the greatest size (64 MB) with its head may be queued at once. */
#define CONN_QUEUE_MAX (80u * 1024 * 1024)
/* How long conn_finish lets a peer take the rest, since it last took a byte of it. */
#define CONN_FLUSH_MS 30000
/* How long a finished connection waits for the peer's FIN, so that a late request byte does not
 * turn the answer into a reset (nginx's lingering_timeout). */
#define CONN_LINGER_MS 5000

struct conn_events {
    /* Bytes, valid during the call. */
    void (*on_read)(struct conn *c, struct sv bytes, void *arg);
    /* The peer sent its end, and all before it was read. `truncated`: TLS without closing alert. */
    void (*on_eof)(struct conn *c, bool truncated, void *arg);
    /* While reading is paused: the peer sent its end; unread bytes may wait before it (resume gives
     * them and then on_eof). Once. May be NULL. */
    void (*on_hangup)(struct conn *c, void *arg);
    /* Reset by the peer, or failed: nothing can be read or written any more. Once, and last. */
    void (*on_gone)(struct conn *c, const struct err *err, void *arg);
    /* The queue was above CONN_QUEUE_HIGH and is empty again. May be NULL. */
    void (*on_drain)(struct conn *c, void *arg);
};

struct conn_options {
    int fd;          /* Taken, also on failure. A connected stream socket. */
    struct tls *tls; /* Taken, also on failure. A finished handshake on `fd`, or NULL. */
};

/* For those who have a socket of their own; listeners and dials call it. */
int conn_new(struct loop *l, const struct conn_options *o, struct conn **out,
             struct err *err) CHECK_RESULT;

/* Keeps `events` (usually static) and `arg`; may be called again to hand the connection over. */
void conn_set_events(struct conn *c, const struct conn_events *events, void *arg);

void conn_read_resume(struct conn *c);
void conn_read_pause(struct conn *c); /* Also from inside on_read; the peer's end is still seen. */
bool conn_read_is_paused(const struct conn *c);

/* Sends at once what the socket takes and queues the rest. ERR_CLOSED after the peer was lost
 * (on_gone comes or came), ERR_LIMIT above CONN_QUEUE_MAX (nothing of `bytes` was sent), ERR_NOMEM.
 */
int conn_write(struct conn *c, struct sv bytes) CHECK_RESULT;
int conn_writev(struct conn *c, const struct sv *parts, size_t n) CHECK_RESULT;
size_t conn_queued(const struct conn *c);
bool conn_is_full(const struct conn *c); /* Above the high mark since; false again at on_drain. */

void conn_finish(struct conn *c); /* Flush, then an orderly end. */
void conn_finish_reset(
    struct conn *c); /* Flush until the peer has it, then reset: an honest abort. */
/* Now: what the peer's buffer does not take is lost, and it is not waited for. */
void conn_drop(struct conn *c);
void conn_abort(struct conn *c); /* Reset now; what is queued is dropped. Accepts NULL. */

struct loop *conn_loop(const struct conn *c);

/* Who is at the other end: "127.0.0.1:4711", "[::1]:4711", "unix"; "gone" where it is not known any
 * more. */
#define CONN_PEER_MAX 64
void conn_peer(const struct conn *c, char out[CONN_PEER_MAX]);
bool conn_is_unix(const struct conn *c);

#endif
