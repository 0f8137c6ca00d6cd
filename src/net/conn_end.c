/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways a connection ends, and what happens between its owner's last call and its close. */
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn_internal.h"

/* How often it is looked whether the peer's machine has acknowledged all: quick on a LAN, at most
 * this. */
#define DRAIN_WAIT_MAX_MS 50

static void link_ending(struct conn *c) {
    c->next = c->loop->ending;
    if (c->next) {
        c->next->prev = c;
    }
    c->loop->ending = c;
}

static void unlink_ending(struct conn *c) {
    if (c->prev) {
        c->prev->next = c->next;
    } else if (c->loop->ending == c) {
        c->loop->ending = c->next;
    }
    if (c->next) {
        c->next->prev = c->prev;
    }
    c->prev = c->next = NULL;
}

static void on_closed(uv_handle_t *handle) {
    struct conn *c = handle->data;
    c->freed = true;
    if (!c->kicked) { /* Else the task that is under way frees it. */
        free(c);
    }
}

void conn_destroy(struct conn *c) {
    if (c->phase == CONN_CLOSED) {
        return;
    }
    unlink_ending(c);
    c->phase = CONN_CLOSED;
    timer_free(c->timer);
    c->timer = NULL;
    tls_free(c->tls);
    c->tls = NULL;
    buf_deinit(&c->queue);
    uv_close((uv_handle_t *)&c->poll, on_closed); /* Before close(2): it takes the fd from epoll. */
    close(c->fd);
    c->fd = -1;
}

static void reset_socket(const struct conn *c) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (!c->is_unix) { /* A unix socket has no reset; its peer sees the end. */
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
}

void conn_drop(struct conn *c) {
    conn_destroy(c);
}

void conn_abort(struct conn *c) {
    if (c && c->phase != CONN_CLOSED) {
        reset_socket(c);
        conn_destroy(c);
    }
}

static bool is_acknowledged(const struct conn *c) {
    int left = 0;
    return ioctl(c->fd, SIOCOUTQ, &left) < 0 || left == 0;
}

static void wait_for_acknowledgement(struct conn *c) {
    c->drain_wait_ms =
        c->drain_wait_ms * 2 < DRAIN_WAIT_MAX_MS ? c->drain_wait_ms * 2 + 1 : DRAIN_WAIT_MAX_MS;
    timer_start(c->timer, c->drain_wait_ms);
}

static void start_linger(struct conn *c) {
    if (c->tls) {
        tls_close_notify(c->tls);
    }
    c->phase = CONN_LINGERING;
    if (shutdown(c->fd, SHUT_WR) < 0 || c->eof) {
        conn_destroy(c);
        return;
    }
    c->paused = false;
    timer_start(c->timer, CONN_LINGER_MS);
}

void conn_end_step(struct conn *c) {
    if (c->lost || (c->phase == CONN_LINGERING && c->eof)) {
        conn_destroy(c);
        return;
    }
    if (c->phase == CONN_FLUSHING && conn_queued(c) == 0) {
        if (c->reset_at_end) {
            c->phase = CONN_DRAINING;
            c->drain_deadline_ms = loop_now_ms(c->loop) + CONN_FLUSH_MS;
        } else {
            start_linger(c);
        }
    }
    if (c->phase == CONN_DRAINING) {
        if (is_acknowledged(c) || loop_now_ms(c->loop) >= c->drain_deadline_ms) {
            conn_abort(c);
        } else {
            wait_for_acknowledgement(c);
        }
    }
}

static void on_timer(void *arg) {
    struct conn *c = arg;
    if (c->phase == CONN_DRAINING) {
        conn_end_step(c);
    } else {
        conn_abort(c); /* The peer had its time. */
    }
}

static void give_up_to_loop(struct conn *c, bool reset_at_end) {
    struct err err = {0};
    BUG_IF(c->phase != CONN_OWNED);
    c->events = NULL;
    c->reset_at_end = reset_at_end;
    c->paused = true;
    c->phase = CONN_FLUSHING;
    link_ending(c);
    if (timer_new(c->loop, on_timer, c, &c->timer, &err) < 0) {
        conn_abort(c);
        return;
    }
    timer_start(c->timer, CONN_FLUSH_MS);
    conn_end_step(c);
    conn_settle(c);
}

void conn_finish(struct conn *c) {
    give_up_to_loop(c, false);
}

void conn_finish_reset(struct conn *c) {
    give_up_to_loop(c, true);
}

void conn_drop_ending(struct loop *l) {
    while (l->ending) {
        if (l->ending->phase == CONN_LINGERING) {
            conn_destroy(l->ending); /* All is sent: a reset could undo it. */
        } else {
            conn_abort(l->ending);
        }
    }
}
