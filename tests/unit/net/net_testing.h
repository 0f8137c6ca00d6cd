/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_UNIT_NET_NET_TESTING_H
#define SNAFFLE_TESTS_UNIT_NET_NET_TESTING_H

/* Blocking sockets for the far side of what runs on a loop. No wait here is longer than 10 s. */

#include "tests/testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/loop.h"

#define TEST_WAIT_MS 10000

static inline struct loop *test_loop(void) {
    struct loop *l = NULL;
    struct err err = {0};
    assert_ok(loop_new(&l, &err), &err);
    return l;
}

static inline int test_connect(uint16_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval wait = {.tv_sec = TEST_WAIT_MS / 1000};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static inline void test_send(int fd, struct sv v) {
    while (v.n > 0) {
        ssize_t n = send(fd, v.p, v.n, MSG_NOSIGNAL);
        assert_true(n > 0);
        v = sv_cut(v, (size_t)n);
    }
}

static inline void test_reset(int fd) {
    struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

/* Reads to the end: 0 after a FIN, the errno otherwise. */
static inline int test_read_end(int fd, struct buf *out) {
    for (;;) {
        char bytes[65536];
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) {
            return n < 0 ? errno : 0;
        }
        assert_int_equal(buf_add(out, bytes, (size_t)n), 0);
    }
}

/* Reads until `words` have come. */
static inline void test_read_until(int fd, struct buf *out, const char *words) {
    while (sv_find(buf_sv(out), sv_from(words)) == (size_t)-1) {
        char bytes[4096];
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n <= 0) {
            fail_msg("'%s' did not come; got '%s'", words, buf_cstr(out));
        }
        assert_int_equal(buf_add(out, bytes, (size_t)n), 0);
    }
}

struct test_condition {
    bool (*is_true)(void *arg);
    void *arg;
    bool result;
};

static inline void test_ask(void *arg) {
    struct test_condition *c = arg;
    c->result = c->is_true(c->arg);
}

/* Waits until is_true(arg), asked on the loop's thread, holds. */
static inline bool test_wait(struct loop *l, bool (*is_true)(void *arg), void *arg) {
    struct test_condition c = {is_true, arg, false};
    for (deadline_ms until = deadline_in_ms(TEST_WAIT_MS); !c.result && !deadline_passed(until);) {
        loop_call(l, test_ask, &c);
        if (!c.result) {
            clock_sleep_ms(1);
        }
    }
    return c.result;
}

#endif
