/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

static char scratch[PROTOCOL_BYTES_MAX]; /* Shared: frames are copied out at once. */

bool conn_has_room(const struct conn *c) {
    return c->out.len < CONN_OUT_HIGH;
}

void conn_fail(struct conn *c) {
    c->is_closing = true;
    buf_reset(&c->out);
    loop_arm(c->server->loop, &c->soon, clock_ms());
}

static void update_events(struct conn *c) {
    bool reads = !c->is_closing && conn_has_room(c) && conn_takes_frame(c);
    loop_want(c->server->loop, &c->watch,
              (short)((reads ? POLLIN : 0) | (c->out.len ? POLLOUT : 0)));
}

static void flush(struct conn *c) {
    size_t at = 0;
    ssize_t n = 0;
    while (at < c->out.len) {
        n = send(c->fd, c->out.data + at, c->out.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            break;
        }
        at += (size_t)n;
    }
    buf_consume(&c->out, at);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        conn_fail(c);
    } else if (c->is_closing && c->out.len == 0) {
        loop_arm(c->server->loop, &c->soon, clock_ms());
    }
    update_events(c);
}

void conn_send(struct conn *c, struct protocol_out *frame) {
    if (protocol_end(frame) < 0) {
        conn_fail(c);
        return;
    }
    flush(c);
}

void conn_send_error(struct conn *c, uint32_t id, const struct err *err) {
    struct protocol_out o = protocol_begin(&c->out, PROTOCOL_ERROR, id);
    protocol_add_u64(&o, PROTOCOL_CODE, (uint64_t)-err->code);
    protocol_add(&o, PROTOCOL_MESSAGE, sv_from(err->msg));
    conn_send(c, &o);
}

/* Frames are no more to be trusted: say why, and close. */
static void refuse(struct conn *c, const struct err *err) {
    c->is_closing = true;
    conn_send_error(c, 0, err);
}

static void handle_frames(struct conn *c) {
    while (!c->is_closing && conn_has_room(c) && conn_takes_frame(c)) {
        struct protocol_frame f;
        struct err err = {0};
        int r = protocol_next(&c->in, &f, &err);
        if (r < 0) {
            refuse(c, &err);
        }
        if (r <= 0) {
            break;
        }
        if (!c->said_hello && f.type != PROTOCOL_HELLO) {
            (void)err_set(&err, ERR_PROTOCOL, "the first frame must be a hello");
            refuse(c, &err);
            break;
        }
        conn_handle(c, &f);
    }
    update_events(c);
}

void conn_resume(struct conn *c) {
    loop_arm(c->server->loop, &c->soon, clock_ms());
}

/* Half a close is a close: a host that sends no more has nobody to answer to. */
static void read_frames(struct conn *c) {
    ssize_t n = recv(c->fd, scratch, sizeof scratch, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        conn_fail(c);
    } else if (n > 0) {
        if (protocol_feed(&c->in, scratch, (size_t)n) < 0) {
            conn_fail(c);
            return;
        }
        handle_frames(c);
    }
}

static void on_ready(struct loop_watch *w, short events) {
    struct conn *c = LOOP_OWNER(w, struct conn, watch);
    if (events & POLLOUT) {
        flush(c);
        if (conn_has_room(c)) {
            if (c->request == CONN_READ) {
                conn_read_more(c);
            } else if (c->job) {
                job_resume_output(c->job);
            }
            handle_frames(c);
        }
    }
    if (events & POLLIN) {
        read_frames(c);
    } else if (events & (POLLHUP | POLLERR | POLLNVAL)) {
        conn_fail(c);
    }
}

static void on_soon(struct loop_timer *t) {
    struct conn *c = LOOP_OWNER(t, struct conn, soon);
    if (c->is_closing && c->out.len == 0) {
        conn_free(c);
    } else {
        handle_frames(c);
    }
}

static void on_expiry(struct loop_timer *t) {
    struct conn *c = LOOP_OWNER(t, struct conn, expiry);
    struct err err;
    (void)err_set(&err, ERR_TIMEOUT, "out of time");
    uint32_t id = c->id;
    conn_end_request(c);
    conn_send_error(c, id, &err);
    conn_resume(c);
}

void conn_end_request(struct conn *c) {
    loop_disarm(c->server->loop, &c->expiry);
    if (c->job) {
        job_disown(c->job);
        c->job = NULL;
    }
    mem_auto_close(&c->file_fd);
    c->file_fd = -1;
    files_write_deinit(&c->write);
    c->request = CONN_NONE;
}

int conn_new(struct server *server, int fd, struct err *err) {
    struct conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    c->server = server;
    c->fd = fd;
    c->dir_fd = AT_FDCWD;
    c->file_fd = -1;
    c->write = FILES_WRITE_NONE;
    c->watch.on_ready = on_ready;
    c->soon.on_time = on_soon;
    c->expiry.on_time = on_expiry;
    if (loop_add(server->loop, &c->watch, fd, POLLIN) < 0) {
        close(fd);
        free(c);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    c->next = server->conns;
    server->conns = c;
    server->n_conns++;
    return 0;
}

void conn_free(struct conn *c) {
    struct server *server = c->server;
    struct conn **p = &server->conns;
    while (*p != c) {
        p = &(*p)->next;
    }
    *p = c->next;
    server->n_conns--;
    conn_end_request(c);
    loop_disarm(server->loop, &c->soon);
    loop_drop(server->loop, &c->watch);
    close(c->fd);
    mem_auto_close(&c->dir_fd); /* AT_FDCWD is negative too. */
    protocol_in_deinit(&c->in);
    buf_deinit(&c->out);
    free(c);
    server_conn_gone(server);
}
