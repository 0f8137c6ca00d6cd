/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cancel.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct cancel {
    atomic_bool thrown;
    int fd;                      /* Readable once thrown. */
    int any_fd;                  /* An epoll set of `fd` and the parent's; -1 without a parent. */
    const struct cancel *parent; /* Or NULL. */
};

int cancel_new(struct cancel **out, struct err *err) {
    struct cancel *c = calloc(1, sizeof *c);
    if (!c) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->fd < 0) {
        free(c);
        return err_sys(err, ERR_SYS, errno, "cannot make an event descriptor");
    }
    c->any_fd = -1;
    *out = c;
    return 0;
}

int cancel_new_under(const struct cancel *parent, struct cancel **out, struct err *err) {
    struct cancel *c = NULL;
    int r = cancel_new(&c, err);
    if (r < 0) {
        return r;
    }
    if (!parent) {
        *out = c;
        return 0;
    }
    c->parent = parent;
    c->any_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event readable = {.events = EPOLLIN};
    if (c->any_fd < 0 || epoll_ctl(c->any_fd, EPOLL_CTL_ADD, c->fd, &readable) < 0 ||
        epoll_ctl(c->any_fd, EPOLL_CTL_ADD, cancel_fd(parent), &readable) < 0) {
        r = err_sys(err, ERR_SYS, errno, "cannot make a set of descriptors");
        cancel_free(c);
        return r;
    }
    *out = c;
    return 0;
}

void cancel_free(struct cancel *c) {
    if (c) {
        if (c->any_fd >= 0) {
            close(c->any_fd);
        }
        close(c->fd);
        free(c);
    }
}

void cancel_throw(struct cancel *c) {
    if (!c) {
        return;
    }
    atomic_store(&c->thrown, true);
    uint64_t one = 1;
    ssize_t n = write(c->fd, &one, sizeof one); /* Fails only when it is readable already. */
    (void)n;
}

bool cancel_thrown(const struct cancel *c) {
    for (; c; c = c->parent) {
        if (atomic_load(&c->thrown)) {
            return true;
        }
    }
    return false;
}

int cancel_fd(const struct cancel *c) {
    if (!c) {
        return -1;
    }
    return c->any_fd >= 0 ? c->any_fd : c->fd;
}

int cancel_poll(const struct cancel *c, int fd, short events, deadline_ms until, struct err *err) {
    for (;;) {
        struct pollfd p[2] = {
            {.fd = cancel_fd(c), .events = POLLIN},
            {.fd = fd, .events = events},
        };
        int n = poll(p, 2, deadline_poll_ms(until));
        if (n < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot wait");
        }
        if (cancel_thrown(c)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
        if (n > 0 && p[1].revents) {
            return 0;
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "out of time");
        }
    }
}

int cancel_sleep(const struct cancel *c, deadline_ms until, struct err *err) {
    int r = cancel_poll(c, -1, 0, until, err);
    return r == ERR_TIMEOUT ? 0 : r;
}
