/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn_internal.h"

static void on_poll(uv_poll_t *poll, int status, int events);

static int wanted(const struct conn *c) {
    if (c->lost) {
        return 0;
    }
    int want = 0;
    if (!c->paused && !c->eof) {
        want |= UV_READABLE;
    } else if (!c->eof && !c->hangup) {
        want |= UV_DISCONNECT;
    }
    if (c->queue.len > c->queue_at) {
        want |= c->write_wants_read ? UV_READABLE : UV_WRITABLE;
    }
    return c->read_wants_write ? want | UV_WRITABLE : want;
}

void conn_settle(struct conn *c) {
    if (c->busy || c->phase == CONN_CLOSED) {
        return;
    }
    int want = wanted(c);
    if (want == c->interest) {
        return;
    }
    c->interest = want;
    if (want == 0) {
        uv_poll_stop(&c->poll);
    } else if (uv_poll_start(&c->poll, want, on_poll) < 0) {
        conn_lose(c, ENOMEM);
        conn_kick(c);
    }
}

void conn_lose(struct conn *c, int errnum) {
    if (!c->lost) {
        c->lost = true;
        c->lost_errno = errnum;
    }
}

/* Bytes that came before a reset are still there: they are given first. An answer to what could not
 * be written in full may be among them. */
static void read_to_the_end(struct conn *c) {
    while (!c->paused && !c->eof && c->phase == CONN_OWNED && conn_read(c)) {
    }
}

static void tell_lost(struct conn *c) {
    struct err err = {0};
    read_to_the_end(c);
    if (c->phase != CONN_OWNED) {
        return;
    }
    err_sys(&err, ERR_CLOSED, c->lost_errno, "the connection was lost");
    c->lost_told = true;
    c->events->on_gone(c, &err, c->arg);
}

static void tell_owner(struct conn *c) {
    if (!c->events) {
        return;
    }
    if (c->eof && !c->eof_told && !c->paused && !c->lost) {
        c->eof_told = true;
        c->events->on_eof(c, c->truncated, c->arg);
    }
    if (c->phase == CONN_OWNED && c->hangup && !c->hangup_told && c->paused && !c->lost) {
        c->hangup_told = true;
        if (c->events->on_hangup) {
            c->events->on_hangup(c, c->arg);
        }
    }
    bool drained = c->drain_due && conn_queued(c) == 0; /* Else it was written to since. */
    c->drain_due = false;
    if (c->phase == CONN_OWNED && drained && !c->lost) {
        c->full = false;
        if (c->events->on_drain) {
            c->events->on_drain(c, c->arg);
        }
    }
    if (c->phase == CONN_OWNED && c->lost && !c->lost_told) {
        tell_lost(c);
    }
}

void conn_tell(struct conn *c) {
    if (c->phase == CONN_OWNED) {
        tell_owner(c);
    } else if (c->phase != CONN_CLOSED) {
        conn_end_step(c);
    }
}

static void on_poll_error(struct conn *c) {
    c->interest = 0; /* libuv has stopped the handle. */
    read_to_the_end(c);
    int errnum = 0;
    socklen_t n = sizeof errnum;
    if (!c->lost && c->phase != CONN_CLOSED) {
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &errnum, &n);
        conn_lose(c, errnum ? errnum : ECONNRESET);
    }
}

static void on_ready(struct conn *c, int events) {
    bool can_read = events & (UV_READABLE | UV_DISCONNECT);
    if ((events & UV_WRITABLE) || (can_read && c->write_wants_read)) {
        c->write_wants_read = false;
        conn_flush(c);
    }
    bool want_read = !c->paused && (can_read || c->read_wants_write);
    if (c->phase != CONN_CLOSED && want_read && !c->eof && !c->lost) {
        c->read_wants_write = false;
        (void)conn_read(c);
    }
    if ((events & UV_DISCONNECT) && c->paused) {
        c->hangup = true;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct conn *c = poll->data;
    c->busy = true;
    if (status < 0) {
        on_poll_error(c);
    } else {
        on_ready(c, events);
    }
    conn_tell(c);
    c->busy = false;
    conn_settle(c);
}

/* What an owner's call made due, done outside of it. */
static void catch_up(void *arg) {
    struct conn *c = arg;
    c->kicked = false;
    if (c->freed) {
        free(c);
        return;
    }
    if (c->phase == CONN_CLOSED) {
        return;
    }
    c->busy = true;
    if (c->tls && !c->paused && !c->eof && !c->lost && tls_has_pending(c->tls)) {
        (void)conn_read(c);
    }
    conn_tell(c);
    c->busy = false;
    conn_settle(c);
}

void conn_kick(struct conn *c) {
    if (!c->kicked && c->phase != CONN_CLOSED) {
        c->kicked = true;
        c->kick = (struct loop_task){.fn = catch_up, .arg = c};
        loop_post_task(c->loop, &c->kick);
    }
}

static int prepare_socket(struct conn *c, struct err *err) {
    int one = 1;
    /* Events are small and must not wait for an acknowledgement: without it 40 ms stalls. */
    int r = setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->is_unix = r < 0 && errno == EOPNOTSUPP;
    return r == 0 || c->is_unix ? 0 : err_sys(err, ERR_SYS, errno, "cannot use a connection");
}

static int start(struct conn *c, struct err *err) {
    int r = prepare_socket(c, err);
    int uv = r < 0 ? 0 : uv_poll_init(&c->loop->uv, &c->poll, c->fd);
    return uv < 0 ? err_set(err, ERR_SYS, "cannot watch a connection: %s", uv_strerror(uv)) : r;
}

int conn_new(struct loop *l, const struct conn_options *o, struct conn **out, struct err *err) {
    struct conn *c = malloc(sizeof *c);
    int r = ERR_NOMEM;
    if (!c) {
        err_set(err, r, "no memory for a connection");
    } else {
        *c = (struct conn){.loop = l, .fd = o->fd, .tls = o->tls, .paused = true};
        c->poll.data = c;
        r = start(c, err);
    }
    if (!c || r < 0) {
        tls_free(o->tls);
        close(o->fd);
        free(c);
        return r;
    }
    conn_settle(c);
    *out = c;
    return 0;
}

void conn_set_events(struct conn *c, const struct conn_events *events, void *arg) {
    c->events = events;
    c->arg = arg;
    if (c->lost || c->hangup) {
        conn_kick(c);
    }
}

void conn_read_resume(struct conn *c) {
    c->paused = false;
    if (c->eof || (c->tls && tls_has_pending(c->tls))) {
        conn_kick(c);
    }
    conn_settle(c);
}

void conn_read_pause(struct conn *c) {
    c->paused = true;
    conn_settle(c);
}

bool conn_read_is_paused(const struct conn *c) {
    return c->paused;
}

size_t conn_queued(const struct conn *c) {
    return c->queue.len - c->queue_at;
}

bool conn_is_full(const struct conn *c) {
    return c->full;
}

struct loop *conn_loop(const struct conn *c) {
    return c->loop;
}

void conn_peer(const struct conn *c, char out[CONN_PEER_MAX]) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN] = "";
    snprintf(out, CONN_PEER_MAX, "%s", c->is_unix ? "unix" : "gone");
    if (c->is_unix || getpeername(c->fd, &a.any, &n) < 0) {
        return;
    }
    if (a.any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &a.v6.sin6_addr, host, sizeof host)) {
        snprintf(out, CONN_PEER_MAX, "[%s]:%u", host, ntohs(a.v6.sin6_port));
    } else if (inet_ntop(AF_INET, &a.v4.sin_addr, host, sizeof host)) {
        snprintf(out, CONN_PEER_MAX, "%s:%u", host, ntohs(a.v4.sin_port));
    }
}

bool conn_is_unix(const struct conn *c) {
    return c->is_unix;
}
