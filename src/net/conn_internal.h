/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_CONN_INTERNAL_H
#define SNAFFLE_NET_CONN_INTERNAL_H

#include "base/buf.h"
#include "net/conn.h"
#include "net/loop_internal.h"
#include "net/tls.h"

/* conn.c makes connections and drives them; conn_read.c, conn_write.c and conn_end.c are its parts.
 */

enum conn_phase {
    CONN_OWNED,
    CONN_FLUSHING,  /* Given up by its owner; the queue goes out. */
    CONN_DRAINING,  /* Waits until the peer has acknowledged all, then resets. */
    CONN_LINGERING, /* Our end is sent; what comes is dropped until the peer's. */
    CONN_CLOSED,
};

struct conn {
    uv_poll_t poll;
    struct loop *loop;
    int fd;
    int interest; /* What `poll` asks for now. */
    enum conn_phase phase;
    struct tls *tls;
    const struct conn_events *events;
    void *arg;
    struct buf queue;
    size_t queue_at; /* Bytes of it that are sent. */
    int lost_errno;
    bool is_unix;
    bool paused;
    bool eof;       /* The peer's end was read. */
    bool truncated; /* ... and came without TLS's closing alert. */
    bool eof_told;
    bool hangup; /* The peer's end was seen while paused. */
    bool hangup_told;
    bool lost;
    bool lost_told;
    bool full;
    bool drain_due;
    bool reset_at_end;
    bool read_wants_write; /* TLS. */
    bool write_wants_read;
    bool busy;   /* Inside a callback: interest is settled at its end. */
    bool kicked; /* The task is posted. */
    bool freed;  /* The handle is closed; the memory waits for the task. */
    struct loop_task kick;
    struct timer *timer;
    int64_t drain_wait_ms;
    int64_t drain_deadline_ms;
    struct conn *prev, *next; /* In loop->ending. */
};

void conn_settle(struct conn *c); /* Asks the loop for what is wanted now. */
void conn_kick(struct conn *c);   /* Runs conn_catch_up soon. */
void conn_lose(struct conn *c, int errnum);
void conn_tell(
    struct conn *c); /* Delivers loss, end and drain that are due. Not inside an owner's call. */

bool conn_read(struct conn *c);  /* Once; gives what came. false: nothing did. */
void conn_flush(struct conn *c); /* Sends what the socket takes. */

void conn_end_step(struct conn *c); /* In an ending phase: goes on to the next if it is time. */
void conn_destroy(struct conn *c);

#endif
