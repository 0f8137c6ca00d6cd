/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "net/loop_internal.h"

/* Taken in one go before other connections get their turn: each brings a whole request, and with
 * many at once events that are due would wait for all of them. */
#define ACCEPT_BATCH 4

struct listener {
    uv_poll_t poll;
    struct loop *loop;
    int fd;
    int reserve_fd; /* Given up for a moment when descriptors run out, to refuse instead of spin. */
    uint16_t port;
    char *unix_path;
    void (*on_accept)(struct conn *c, void *arg);
    void *arg;
    bool closed;
};

static void accepted(struct listener *s, int fd) {
    struct conn *c = NULL;
    struct err err = {0};
    if (conn_new(s->loop, &(struct conn_options){.fd = fd}, &c, &err) == 0) {
        s->on_accept(c, s->arg);
    }
}

/* The one waiting would stay readable for ever: take it and close it. */
static void refuse_one(struct listener *s) {
    close(s->reserve_fd);
    int fd = accept(s->fd, NULL, NULL);
    if (fd >= 0) {
        close(fd);
    }
    s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* True: more may be waiting. */
static bool accept_batch(struct listener *s) {
    for (int i = 0; i < ACCEPT_BATCH && !s->closed; i++) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            accepted(s, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            refuse_one(s);
            return false;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return false;
        }
    }
    return !s->closed;
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    (void)accept_batch(poll->data);
}

static int bind_address(const struct addrinfo *a, bool shares_port, int *out_fd) {
    AUTO_CLOSE int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        (shares_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) < 0) ||
        bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, LISTENER_BACKLOG) < 0) {
        return -errno;
    }
    *out_fd = TAKE_FD(fd);
    return 0;
}

static int listen_tcp(const char *host, const struct listener_options *o, int *out_fd,
                      struct err *err) {
    uint16_t port = o->port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    int r = getaddrinfo(host, service, &hints, &list);
    if (r != 0) {
        return err_set(err, ERR_INPUT, "cannot listen on '%s': %s", host, gai_strerror(r));
    }
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        r = bind_address(a, o->shares_port, out_fd);
        if (r == 0) {
            break;
        }
    }
    freeaddrinfo(list);
    if (r < 0) {
        return err_sys(err, r == -EADDRINUSE ? ERR_EXISTS : ERR_SYS, -r,
                       "cannot listen on '%s' port %u", host, (unsigned)port);
    }
    return 0;
}

static uint16_t port_of(int fd) {
    struct sockaddr_storage addr = {0};
    socklen_t n = sizeof addr;
    if (getsockname(fd, (struct sockaddr *)&addr, &n) < 0) {
        return 0;
    }
    return addr.ss_family == AF_INET    ? ntohs(((struct sockaddr_in *)&addr)->sin_port)
           : addr.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&addr)->sin6_port)
                                        : 0;
}

static int open_socket(struct listener *s, const struct listener_options *o, struct err *err) {
    if (o->fd > 0) {
        s->fd = o->fd;
        return 0;
    }
    if (!o->unix_path) {
        return listen_tcp(o->host ? o->host : "127.0.0.1", o, &s->fd, err);
    }
    s->unix_path = mem_strdup(o->unix_path);
    if (!s->unix_path) {
        return err_set(err, ERR_NOMEM, "no memory for a listener");
    }
    int r = fd_listen_unix(o->unix_path, LISTENER_BACKLOG, o->unix_mode ? o->unix_mode : 0600,
                           &s->fd, err);
    return r < 0 ? r : fd_set_nonblocking(s->fd, err);
}

static void release(struct listener *s) {
    if (s->fd >= 0) {
        close(s->fd);
    }
    if (s->reserve_fd >= 0) {
        close(s->reserve_fd);
    }
    free(s->unix_path);
    free(s);
}

static void on_closed(uv_handle_t *handle) {
    release(handle->data);
}

struct start {
    struct listener *listener;
    int error;
};

static void start(void *arg) {
    struct start *st = arg;
    struct listener *s = st->listener;
    st->error = uv_poll_init(&s->loop->uv, &s->poll, s->fd);
    if (st->error < 0) {
        release(s);
        return;
    }
    s->poll.data = s;
    st->error = uv_poll_start(&s->poll, UV_READABLE, on_poll);
    if (st->error < 0) {
        uv_close((uv_handle_t *)&s->poll, on_closed);
    }
}

int listener_new(struct loop *l, const struct listener_options *o, struct listener **out,
                 struct err *err) {
    struct listener *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(err, ERR_NOMEM, "no memory for a listener");
    }
    *s = (struct listener){.loop = l, .fd = -1, .on_accept = o->on_accept, .arg = o->arg};
    s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int r = open_socket(s, o, err);
    if (r < 0) {
        release(s);
        return r;
    }
    s->port = port_of(s->fd);
    struct start st = {.listener = s};
    loop_call(l, start, &st);
    if (st.error < 0) {
        return err_set(err, ERR_SYS, "cannot watch a listener: %s", uv_strerror(st.error));
    }
    *out = s;
    return 0;
}

uint16_t listener_port(const struct listener *s) {
    return s->port;
}

static void close_socket(struct listener *s) {
    s->closed = true;
    uv_poll_stop(&s->poll);
    close(s->fd); /* At once: a port that is given up must be free for the next. */
    s->fd = -1;
    if (s->unix_path) {
        unlink(s->unix_path);
    }
}

void listener_drain(struct listener *s) {
    while (accept_batch(s)) {
    }
    if (!s->closed) {
        close_socket(s);
    }
}

static void stop(void *arg) {
    struct listener *s = arg;
    if (!s->closed) {
        close_socket(s);
    }
    uv_close((uv_handle_t *)&s->poll, on_closed);
}

void listener_free(struct listener *s) {
    if (s) {
        loop_call(s->loop, stop, s);
    }
}
