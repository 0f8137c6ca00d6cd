/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sys/socket.h>

#include "net/conn_internal.h"

static void deliver(struct conn *c, size_t n) {
    if (c->phase == CONN_OWNED && c->events) {
        c->events->on_read(c, (struct sv){c->loop->read_buffer, n}, c->arg);
    }
}

static bool read_plain(struct conn *c) {
    ssize_t n = recv(c->fd, c->loop->read_buffer, CONN_READ_MAX, 0);
    if (n > 0) {
        deliver(c, (size_t)n);
        return true;
    }
    if (n == 0) {
        c->eof = true;
        return true;
    }
    if (errno != EAGAIN && errno != EINTR) {
        conn_lose(c, errno);
    }
    return false;
}

/*
 * OpenSSL gives one record (16 KB) a call: the buffer is filled before it is given. When it was
 * full, bytes may be left inside OpenSSL that no socket event will announce, so the rest is read
 * soon.
 */
static bool read_tls(struct conn *c) {
    size_t filled = 0;
    ssize_t n = 1;
    bool truncated = false;
    struct err err = {0};
    while (n > 0 && filled < CONN_READ_MAX) {
        n = tls_read(c->tls, c->loop->read_buffer + filled, CONN_READ_MAX - filled, &truncated,
                     &err);
        filled += n > 0 ? (size_t)n : 0;
    }
    if (n == 0) {
        c->eof = true;
        c->truncated = truncated;
    } else if (n == TLS_WANT_WRITE) {
        c->read_wants_write = true;
    } else if (n < 0 && n != TLS_WANT_READ) {
        conn_lose(c, err.sys ? err.sys : ECONNRESET);
    } else if (n > 0) {
        conn_kick(c);
    }
    if (filled > 0) {
        deliver(c, filled);
    }
    return filled > 0 || n == 0;
}

bool conn_read(struct conn *c) {
    return c->tls ? read_tls(c) : read_plain(c);
}
