/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sandbox/greeter.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/testing.h"

static void *greet(void *arg) {
    struct greeter *g = arg;
    while (cancel_poll(g->end, g->fd, POLLIN, DEADLINE_NEVER, NULL) == 0) {
        int c = accept4(g->fd, NULL, NULL, SOCK_CLOEXEC);
        if (c >= 0) {
            ssize_t n = send(c, g->word, strlen(g->word), MSG_NOSIGNAL);
            (void)n; /* Whoever left is not greeted. */
            close(c);
        }
    }
    return NULL;
}

void greeter_begin(struct greeter *g) {
    struct err err = {0};
    assert_true(g->fd >= 0);
    assert_ok(cancel_new(&g->end, &err), &err);
    assert_int_equal(pthread_create(&g->thread, NULL, greet, g), 0);
}

void greeter_end(struct greeter *g) {
    cancel_throw(g->end);
    pthread_join(g->thread, NULL);
    cancel_free(g->end);
    close(g->fd);
}

/* Takes the socket. */
static int listen_at(int fd, const void *address, socklen_t n) {
    if (fd >= 0 && (bind(fd, address, n) < 0 || listen(fd, 16) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

int greeter_listen(struct in_addr address, unsigned *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = address};
    socklen_t n = sizeof a;
    int fd = listen_at(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), &a, n);
    if (fd >= 0) {
        assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
        *port = ntohs(a.sin_port);
    }
    return fd;
}

int greeter_listen_6(const char *address, unsigned *port) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};
    socklen_t n = sizeof a;
    assert_int_equal(inet_pton(AF_INET6, address, &a.sin6_addr), 1);
    int fd = listen_at(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), &a, n);
    if (fd >= 0) {
        assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
        *port = ntohs(a.sin6_port);
    }
    return fd;
}

int greeter_listen_abstract(const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    assert_true(n < sizeof a.sun_path - 1);
    memcpy(a.sun_path + 1, name, n);
    return listen_at(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), &a,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
}
