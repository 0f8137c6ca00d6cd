/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "net/loop_internal.h"
#include "net/off_limits.h"

/* Names with more addresses are load balancers, where the first few stand for all. */
#define ADDRESSES_MAX 8
/* A peer whose machine is gone says nothing, and a generation may be silent for as long as it
 * takes: the kernel asks after a minute of silence, and gives the peer one more to answer. */
#define PROBE_AFTER_S 60
#define PROBE_EVERY_S 15
#define PROBES_MAX 4

struct dial {
    struct loop *loop;
    uv_getaddrinfo_t lookup;
    struct loop_task begin;
    struct watch *watch; /* The socket that is being connected or shaking hands. */
    struct timer *timer;
    char *host;
    char *unix_path;
    uint16_t port;
    struct tls_context *tls_context;
    struct tls *tls;
    int fd;
    int64_t deadline_ms;
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    size_t n_addresses;
    size_t next_address;
    bool is_strangers;
    int users; /* The caller (until done), the task, the look-up. */
    bool done;
    struct err last;
    void (*on_done)(struct conn *c, const struct err *err, void *arg);
    void *arg;
};

/* A poll handle lives until its close callback, longer than its use. */
struct watch {
    uv_poll_t poll;
    struct dial *dial;
};

static void try_next(struct dial *d);
static void connected(struct dial *d);
static void shake_hands(struct dial *d);

static void drop_user(struct dial *d) {
    if (--d->users == 0) {
        free(d->host);
        free(d->unix_path);
        free(d);
    }
}

static void on_watch_closed(uv_handle_t *handle) {
    free(handle->data);
}

static void unwatch(struct dial *d) {
    if (d->watch) {
        d->watch->dial = NULL;
        uv_close((uv_handle_t *)&d->watch->poll, on_watch_closed);
        d->watch = NULL;
    }
}

static void close_socket(struct dial *d) {
    unwatch(d);
    tls_free(d->tls);
    d->tls = NULL;
    if (d->fd >= 0) {
        close(d->fd);
        d->fd = -1;
    }
}

static void end(struct dial *d) {
    d->done = true;
    close_socket(d);
    timer_free(d->timer);
    d->timer = NULL;
}

static void fail(struct dial *d) {
    struct err err = d->last;
    if (d->unix_path) {
        err_wrap(&err, "cannot connect to '%s'", d->unix_path);
    } else {
        err_wrap(&err, "cannot connect to '%s' port %u", d->host, (unsigned)d->port);
    }
    end(d);
    d->on_done(NULL, &err, d->arg);
    drop_user(d);
}

static void succeed(struct dial *d) {
    unwatch(d);
    struct conn *c = NULL;
    int fd = TAKE_FD(d->fd);
    struct tls *tls = TAKE(d->tls);
    if (conn_new(d->loop, &(struct conn_options){.fd = fd, .tls = tls}, &c, &d->last) < 0) {
        fail(d);
        return;
    }
    end(d);
    d->on_done(c, NULL, d->arg);
    drop_user(d);
}

static void on_connect_ready(uv_poll_t *poll, int status, int events) {
    struct watch *w = poll->data;
    (void)events;
    struct dial *d = w->dial;
    if (!d) {
        return;
    }
    int errnum = 0;
    socklen_t n = sizeof errnum;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &errnum, &n) < 0) {
        errnum = errno;
    }
    if (errnum == 0 && status < 0) {
        errnum = ECONNREFUSED;
    }
    if (errnum) {
        err_set(&d->last, ERR_CONNECT, "%s", strerror(errnum));
        try_next(d);
    } else {
        connected(d);
    }
}

static void on_handshake_ready(uv_poll_t *poll, int status, int events) {
    struct watch *w = poll->data;
    (void)status; /* An error shows in the handshake's next step, with a better text. */
    (void)events;
    if (w->dial) {
        shake_hands(w->dial);
    }
}

static int watch(struct dial *d, int events, uv_poll_cb fn) {
    if (!d->watch) {
        struct watch *w = calloc(1, sizeof *w);
        if (!w || uv_poll_init(&d->loop->uv, &w->poll, d->fd) < 0) {
            free(w);
            return err_set(&d->last, ERR_CONNECT, "no memory to watch a socket");
        }
        w->poll.data = w;
        w->dial = d;
        d->watch = w;
    }
    if (uv_poll_start(&d->watch->poll, events, fn) < 0) {
        return err_set(&d->last, ERR_CONNECT, "cannot watch a socket");
    }
    return 0;
}

static void shake_hands(struct dial *d) {
    int r = 0;
    if (!d->tls) {
        r = tls_new(d->tls_context, d->fd, d->host, &d->tls, &d->last);
    }
    if (r == 0) {
        r = tls_handshake(d->tls, &d->last);
    }
    if (r == 0) {
        succeed(d);
    } else if (r == TLS_WANT_READ || r == TLS_WANT_WRITE) {
        int events = r == TLS_WANT_READ ? UV_READABLE : UV_WRITABLE;
        if (watch(d, events, on_handshake_ready) < 0) {
            fail(d);
        }
    } else {
        fail(d); /* Another address of the same host would show the same certificate. */
    }
}

/* The last address may take all the time that is left, each before it an equal share. */
static void start_attempt_timer(struct dial *d) {
    int64_t left = d->deadline_ms - clock_ms();
    int64_t attempts = (int64_t)(d->n_addresses - d->next_address) + 1;
    timer_start(d->timer, left > 0 ? left / attempts : 0);
}

/* Not all kernels know all of it; without, a dead peer is noticed later. */
static void set_probes(int fd) {
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, PROBE_AFTER_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EVERY_S},
        {IPPROTO_TCP, TCP_KEEPCNT, PROBES_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
    }
}

/* Within a machine the handshake is over when connect returns, though it says it is not. */
static bool is_connected(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && p.revents == POLLOUT;
}

/* 1: connected already. */
static int start_connect(struct dial *d, const struct sockaddr_storage *a) {
    bool is_v6 = a->ss_family == AF_INET6;
    socklen_t n = is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    d->fd = socket(a->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->fd < 0) {
        return err_sys(&d->last, ERR_CONNECT, errno, "no socket");
    }
    set_probes(d->fd);
    if (connect(d->fd, (const struct sockaddr *)a, n) < 0 && errno != EINPROGRESS) {
        return err_set(&d->last, ERR_CONNECT, "%s", strerror(errno));
    }
    return is_connected(d->fd) ? 1 : watch(d, UV_WRITABLE, on_connect_ready);
}

static void connected(struct dial *d) {
    if (d->tls_context) {
        shake_hands(d);
    } else {
        succeed(d);
    }
}

/* All of them: a name that also stands for a good address is no better. */
static bool is_denied(struct dial *d) {
    bool denied = false;
    for (size_t i = 0; d->is_strangers && i < d->n_addresses; i++) {
        denied = denied || address_is_off_limits((const struct sockaddr *)&d->addresses[i]);
    }
    if (denied) {
        err_set(&d->last, ERR_DENIED, "it is a link-local address or one of a cloud's own");
    }
    return denied;
}

static void try_first(struct dial *d) {
    if (is_denied(d)) {
        fail(d);
    } else {
        try_next(d);
    }
}

static void try_next(struct dial *d) {
    close_socket(d);
    while (d->next_address < d->n_addresses && clock_ms() < d->deadline_ms) {
        const struct sockaddr_storage *a = &d->addresses[d->next_address++];
        start_attempt_timer(d);
        int r = start_connect(d, a);
        if (r > 0) {
            connected(d);
        }
        if (r >= 0) {
            return;
        }
        close_socket(d);
    }
    if (d->last.code == 0) {
        err_set(&d->last, ERR_TIMEOUT, "no answer in time");
    }
    fail(d);
}

static void on_time(void *arg) {
    struct dial *d = arg;
    err_set(&d->last, ERR_TIMEOUT, "no answer in time");
    if (d->n_addresses == 0) { /* Still looking the name up. */
        uv_cancel((uv_req_t *)&d->lookup);
        fail(d);
    } else {
        try_next(d);
    }
}

static void on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *list) {
    struct dial *d = req->data;
    if (!d->done && status < 0) {
        err_set(&d->last, ERR_CONNECT, "%s", uv_strerror(status));
        fail(d);
    } else if (!d->done) {
        for (struct addrinfo *a = list; a && d->n_addresses < ADDRESSES_MAX; a = a->ai_next) {
            memcpy(&d->addresses[d->n_addresses++], a->ai_addr, a->ai_addrlen);
        }
        try_first(d);
    }
    uv_freeaddrinfo(list);
    drop_user(d);
}

/* An address literal needs no look-up, and the pool's threads no waking. */
static bool take_literal(struct dial *d) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(d->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(d->port)};
    if (inet_pton(AF_INET, d->host, &v4.sin_addr) == 1) {
        memcpy(&d->addresses[0], &v4, sizeof v4);
    } else if (inet_pton(AF_INET6, d->host, &v6.sin6_addr) == 1) {
        memcpy(&d->addresses[0], &v6, sizeof v6);
    } else {
        return false;
    }
    d->n_addresses = 1;
    return true;
}

static void start_lookup(struct dial *d) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)d->port);
    d->lookup.data = d;
    d->users++;
    int r = uv_getaddrinfo(&d->loop->uv, &d->lookup, on_lookup, d->host, service, &hints);
    if (r < 0) {
        d->users--;
        err_set(&d->last, ERR_CONNECT, "%s", uv_strerror(r));
        fail(d);
    }
}

static void connect_unix(struct dial *d) {
    if (fd_connect_unix(d->unix_path, &d->fd, &d->last) < 0) {
        fail(d);
    } else if (d->tls_context) {
        shake_hands(d);
    } else {
        succeed(d);
    }
}

static void begin(void *arg) {
    struct dial *d = arg;
    if (!d->done && d->unix_path) {
        connect_unix(d);
    } else if (!d->done && take_literal(d)) {
        try_first(d);
    } else if (!d->done) {
        timer_start(d->timer, d->deadline_ms - clock_ms());
        start_lookup(d);
    }
    drop_user(d);
}

int dial_start(struct loop *l, const struct dial_options *o, struct dial **out, struct err *err) {
    BUG_IF(!o->on_done || (!o->host && !o->unix_path));
    struct dial *d = calloc(1, sizeof *d);
    if (!d) {
        return err_set(err, ERR_NOMEM, "no memory for a connection");
    }
    int64_t ms = o->timeout_ms > 0 ? o->timeout_ms : DIAL_TIMEOUT_MS;
    *d = (struct dial){
        .loop = l,
        .port = o->port,
        .tls_context = o->tls,
        .is_strangers = o->is_strangers,
        .fd = -1,
        .deadline_ms = clock_ms() + ms,
        .users = 2,
        .on_done = o->on_done,
        .arg = o->arg,
        .begin = {.fn = begin, .arg = d},
        .host = mem_strdup(o->host),
        .unix_path = mem_strdup(o->unix_path),
    };
    bool no_memory = (o->host && !d->host) || (o->unix_path && !d->unix_path);
    int r = no_memory ? err_set(err, ERR_NOMEM, "no memory for a connection")
                      : timer_new(l, on_time, d, &d->timer, err);
    if (r < 0) {
        d->users = 1;
        drop_user(d);
        return r;
    }
    loop_post_task(l, &d->begin);
    *out = d;
    return 0;
}

void dial_cancel(struct dial *d) {
    if (d) {
        BUG_IF(d->done);
        uv_cancel((uv_req_t *)&d->lookup); /* Refused, harmlessly, when none is under way. */
        end(d);
        drop_user(d);
    }
}
