/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "net/conn_internal.h"

/* Sent bytes at the queue's front are cut off when they are this many and more than half. */
#define COMPACT_MIN (64u * 1024)
/* An emptied queue keeps this much memory for the next time. */
#define KEEP_MAX CONN_QUEUE_HIGH
/* Head, chunk line, payload, chunk end, and room for a few more. */
#define PARTS_MAX 16
/* Sent from one queue before other connections get their turn. */
#define FLUSH_BATCH (1024u * 1024)

static void lose_inside_call(struct conn *c, int errnum) {
    conn_lose(c, errnum);
    conn_kick(c);
}

static void queue_emptied(struct conn *c) {
    if (c->queue.cap > KEEP_MAX * 2) {
        buf_deinit(&c->queue);
    }
    buf_reset(&c->queue);
    c->queue_at = 0;
    if (c->full) {
        c->drain_due = true;
    }
}

static ssize_t send_some(struct conn *c, struct sv v) {
    if (!c->tls) {
        ssize_t n = send(c->fd, v.p, v.n, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            conn_lose(c, errno);
        }
        return n;
    }
    struct err err = {0};
    ssize_t n = tls_write(c->tls, v, &err);
    if (n == TLS_WANT_READ) {
        c->write_wants_read = true;
    } else if (n < 0 && n != TLS_WANT_WRITE) {
        conn_lose(c, err.sys ? err.sys : ECONNRESET);
    }
    return n;
}

void conn_flush(struct conn *c) {
    size_t stop = c->queue_at + FLUSH_BATCH;
    while (!c->lost && c->queue_at < c->queue.len && c->queue_at < stop) {
        ssize_t n = send_some(c, sv_cut(buf_sv(&c->queue), c->queue_at));
        if (n < 0) {
            return;
        }
        c->queue_at += (size_t)n;
        if (c->timer && c->phase == CONN_FLUSHING) {
            timer_start(c->timer, CONN_FLUSH_MS); /* It moves: the peer gets its time anew. */
        }
    }
    if (c->queue.len > 0 && c->queue_at == c->queue.len) {
        queue_emptied(c);
    }
}

static int enqueue(struct conn *c, struct sv v) {
    if (c->queue_at >= COMPACT_MIN && c->queue_at > c->queue.len / 2) {
        buf_consume(&c->queue, c->queue_at);
        c->queue_at = 0;
    }
    return buf_add_sv(&c->queue, v);
}

/* Sends from the parts directly; the count of bytes taken, 0 when the socket is full. */
static size_t send_parts(struct conn *c, const struct sv *parts, size_t n) {
    struct iovec iov[PARTS_MAX];
    for (size_t i = 0; i < n; i++) {
        iov[i] = (struct iovec){(void *)(uintptr_t)parts[i].p, parts[i].n};
    }
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t sent = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        lose_inside_call(c, errno);
    }
    return sent < 0 ? 0 : (size_t)sent;
}

static int queue_rest(struct conn *c, const struct sv *parts, size_t n, size_t sent) {
    for (size_t i = 0; i < n; i++) {
        size_t skip = sent < parts[i].n ? sent : parts[i].n;
        sent -= skip;
        if (skip < parts[i].n && enqueue(c, sv_cut(parts[i], skip)) < 0) {
            lose_inside_call(c, ENOMEM); /* A part of the bytes is out: no going on. */
            return ERR_NOMEM;
        }
    }
    return 0;
}

int conn_writev(struct conn *c, const struct sv *parts, size_t n) {
    BUG_IF(n > PARTS_MAX);
    size_t total = 0;
    for (size_t i = 0; i < n; i++) {
        total += parts[i].n;
    }
    if (c->lost) {
        return ERR_CLOSED;
    }
    if (total > CONN_QUEUE_MAX - conn_queued(c)) {
        return ERR_LIMIT;
    }
    bool was_empty = conn_queued(c) == 0;
    size_t sent = was_empty && !c->tls ? send_parts(c, parts, n) : 0;
    int r = c->lost ? ERR_CLOSED : queue_rest(c, parts, n, sent);
    if (r == 0 && was_empty && c->tls) {
        conn_flush(c);
        r = c->lost ? ERR_CLOSED : 0;
        if (c->lost || c->drain_due) {
            conn_kick(c);
        }
    }
    c->full = c->full || conn_queued(c) > CONN_QUEUE_HIGH;
    conn_settle(c);
    return r;
}

int conn_write(struct conn *c, struct sv bytes) {
    return conn_writev(c, &bytes, 1);
}
