/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/conn.h"

#include "net/listener.h"
#include "tests/unit/net/net_testing.h"

/* A connection on a loop and the blocking socket at its other end. */
struct pair {
    struct loop *l;
    struct listener *listener;
    struct conn *c;
    int fd;
    struct buf got;
    int eofs, hangups, gones, drains;
    int gone_errno;
    bool pause_after_read;
    bool in_call;
    struct sv to_write;
    int write_result;
    size_t max_queued;
};

static void on_read(struct conn *c, struct sv bytes, void *arg) {
    struct pair *p = arg;
    BUG_IF(buf_add_sv(&p->got, bytes) < 0 || p->gones || p->eofs);
    if (p->pause_after_read) {
        conn_read_pause(c);
    }
}

static void on_eof(struct conn *c, bool truncated, void *arg) {
    struct pair *p = arg;
    (void)c;
    BUG_IF(truncated);
    p->eofs++;
}

static void on_hangup(struct conn *c, void *arg) {
    struct pair *p = arg;
    BUG_IF(!conn_read_is_paused(c));
    p->hangups++;
}

static void on_gone(struct conn *c, const struct err *err, void *arg) {
    struct pair *p = arg;
    (void)c;
    BUG_IF(p->in_call);
    p->gones++;
    p->gone_errno = err->sys;
}

static void on_drain(struct conn *c, void *arg) {
    struct pair *p = arg;
    BUG_IF(conn_queued(c) != 0 || conn_is_full(c) || p->in_call);
    p->drains++;
}

static const struct conn_events events = {on_read, on_eof, on_hangup, on_gone, on_drain};

static void on_accept(struct conn *c, void *arg) {
    struct pair *p = arg;
    p->c = c;
    conn_set_events(c, &events, p);
}

static bool has_conn(void *arg) {
    return ((struct pair *)arg)->c != NULL;
}

static void resume(void *arg) {
    struct pair *p = arg;
    conn_read_resume(p->c);
}

static struct pair *open_pair(bool reading) {
    struct pair *p = calloc(1, sizeof *p);
    struct err err = {0};
    assert_non_null(p);
    p->l = test_loop();
    struct listener_options o = {.on_accept = on_accept, .arg = p};
    assert_ok(listener_new(p->l, &o, &p->listener, &err), &err);
    p->fd = test_connect(listener_port(p->listener));
    assert_true(test_wait(p->l, has_conn, p));
    if (reading) {
        loop_call(p->l, resume, p);
    }
    return p;
}

static void do_abort(void *arg) {
    struct pair *p = arg;
    conn_abort(p->c);
    p->c = NULL;
}

static void do_finish(void *arg) {
    struct pair *p = arg;
    conn_finish(p->c);
    p->c = NULL;
}

static void do_finish_reset(void *arg) {
    struct pair *p = arg;
    conn_finish_reset(p->c);
    p->c = NULL;
}

static void do_write(void *arg) {
    struct pair *p = arg;
    p->in_call = true;
    p->write_result = conn_write(p->c, p->to_write);
    p->in_call = false;
    size_t queued = conn_queued(p->c);
    p->max_queued = queued > p->max_queued ? queued : p->max_queued;
}

static void close_pair(struct pair *p) {
    loop_call(p->l, do_abort, p);
    listener_free(p->listener);
    loop_free(p->l);
    if (p->fd >= 0) {
        close(p->fd);
    }
    buf_deinit(&p->got);
    free(p);
}

static bool has_eof(void *arg) {
    return ((struct pair *)arg)->eofs > 0;
}

static bool has_hangup(void *arg) {
    return ((struct pair *)arg)->hangups > 0;
}

static bool is_gone(void *arg) {
    return ((struct pair *)arg)->gones > 0;
}

static bool has_drained(void *arg) {
    return ((struct pair *)arg)->drains > 0;
}

static bool has_bytes(void *arg) {
    return ((struct pair *)arg)->got.len > 0;
}

static void bytes_go_both_ways(void **state) {
    (void)state;
    struct pair *p = open_pair(true);
    test_send(p->fd, SV("ping"));
    assert_true(test_wait(p->l, has_bytes, p));
    assert_string_equal(buf_cstr(&p->got), "ping");
    p->to_write = SV("pong");
    loop_call(p->l, do_write, p);
    AUTO_BUF struct buf back = {0};
    test_read_until(p->fd, &back, "pong");
    close_pair(p);
}

static void nothing_is_read_while_paused(void **state) {
    (void)state;
    struct pair *p = open_pair(false);
    test_send(p->fd, SV("early"));
    clock_sleep_ms(20);
    assert_int_equal(p->got.len, 0);
    loop_call(p->l, resume, p);
    assert_true(test_wait(p->l, has_bytes, p));
    close_pair(p);
}

static void the_peers_end_is_given_after_its_bytes(void **state) {
    (void)state;
    struct pair *p = open_pair(true);
    test_send(p->fd, SV("last"));
    shutdown(p->fd, SHUT_WR);
    assert_true(test_wait(p->l, has_eof, p));
    assert_string_equal(buf_cstr(&p->got), "last");
    clock_sleep_ms(20); /* A level-triggered end must not come again. */
    assert_int_equal(p->eofs, 1);
    assert_int_equal(p->hangups, 0);
    close_pair(p);
}

static void a_peer_that_ends_while_reading_is_paused_is_noticed(void **state) {
    (void)state;
    struct pair *p = open_pair(false);
    test_send(p->fd, SV("unread"));
    shutdown(p->fd, SHUT_WR);
    assert_true(test_wait(p->l, has_hangup, p));
    assert_int_equal(p->got.len, 0);
    loop_call(p->l, resume, p);
    assert_true(test_wait(p->l, has_eof, p));
    assert_string_equal(buf_cstr(&p->got), "unread");
    assert_int_equal(p->hangups, 1);
    close_pair(p);
}

static void a_peer_that_resets_while_reading_is_paused_is_noticed(void **state) {
    (void)state;
    struct pair *p = open_pair(false);
    test_send(p->fd, SV("unread"));
    clock_sleep_ms(5);
    test_reset(p->fd);
    p->fd = -1;
    assert_true(test_wait(p->l, is_gone, p));
    assert_int_equal(p->gone_errno, ECONNRESET);
    clock_sleep_ms(20);
    assert_int_equal(p->gones, 1);
    close_pair(p);
}

static void a_reset_while_reading_is_told_once(void **state) {
    (void)state;
    struct pair *p = open_pair(true);
    test_reset(p->fd);
    p->fd = -1;
    assert_true(test_wait(p->l, is_gone, p));
    assert_int_equal(p->gone_errno, ECONNRESET);
    assert_int_equal(p->eofs, 0);
    p->to_write = SV("x");
    loop_call(p->l, do_write, p);
    assert_int_equal(p->write_result, ERR_CLOSED);
    assert_int_equal(p->gones, 1);
    close_pair(p);
}

static void writing_to_a_reset_peer_fails_and_is_told_later(void **state) {
    (void)state;
    struct pair *p = open_pair(false);
    char *big = calloc(1, 1024 * 1024);
    assert_non_null(big);
    test_reset(p->fd);
    p->fd = -1;
    p->to_write = (struct sv){big, 1024 * 1024};
    for (int i = 0; i < 100 && p->write_result == 0; i++) {
        loop_call(p->l, do_write, p);
    }
    assert_int_equal(p->write_result, ERR_CLOSED);
    assert_true(test_wait(p->l, is_gone, p));
    assert_int_equal(p->gones, 1);
    free(big);
    close_pair(p);
}

/* Writes in read-sized pieces as long as the connection is not full, as a proxy does. */
static void pump(void *arg) {
    struct pair *p = arg;
    p->drains = 0;
    while (!conn_is_full(p->c)) {
        do_write(p);
        BUG_IF(p->write_result < 0);
    }
    BUG_IF(p->drains > 0);
}

static void back_pressure_keeps_the_queue_bounded(void **state) {
    (void)state;
    struct pair *p = open_pair(false);
    static char piece[CONN_READ_MAX];
    p->to_write = (struct sv){piece, sizeof piece};
    for (int round = 0; round < 5; round++) {
        loop_call(p->l, pump, p);
        AUTO_BUF struct buf got = {0};
        struct timeval brief = {.tv_usec = 20000};
        setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief);
        assert_int_equal(test_read_end(p->fd, &got), EAGAIN);
        assert_true(test_wait(p->l, has_drained, p));
        assert_true(got.len > CONN_QUEUE_HIGH);
    }
    assert_true(p->max_queued > CONN_QUEUE_HIGH);
    assert_true(p->max_queued <= CONN_QUEUE_HIGH + CONN_READ_MAX);
    close_pair(p);
}

static void more_than_the_queue_may_hold_is_refused_whole(void **state) {
    (void)state;
    struct pair *p = open_pair(false);
    char *big = calloc(1, CONN_QUEUE_MAX + 1);
    assert_non_null(big);
    p->to_write = (struct sv){big, CONN_QUEUE_MAX + 1};
    loop_call(p->l, do_write, p);
    assert_int_equal(p->write_result, ERR_LIMIT);
    assert_int_equal(conn_queued(p->c), 0);
    free(big);
    close_pair(p);
}

#define MANY (8u * 1024 * 1024)

static struct pair *open_with_queue(char **big) {
    struct pair *p = open_pair(false);
    *big = malloc(MANY);
    assert_non_null(*big);
    for (size_t i = 0; i < MANY; i++) {
        (*big)[i] = (char)(i * 31 >> 3);
    }
    p->to_write = (struct sv){*big, MANY};
    loop_call(p->l, do_write, p);
    assert_int_equal(p->write_result, 0);
    assert_true(p->max_queued > 0);
    return p;
}

static void finish_sends_all_and_then_an_orderly_end(void **state) {
    (void)state;
    char *big = NULL;
    struct pair *p = open_with_queue(&big);
    loop_call(p->l, do_finish, p);
    AUTO_BUF struct buf got = {0};
    assert_int_equal(test_read_end(p->fd, &got), 0);
    assert_true(sv_eq(buf_sv(&got), (struct sv){big, MANY}));
    free(big);
    close_pair(p);
}

static void finish_reset_sends_all_and_then_a_reset(void **state) {
    (void)state;
    char *big = NULL;
    struct pair *p = open_with_queue(&big);
    loop_call(p->l, do_finish_reset, p);
    AUTO_BUF struct buf got = {0};
    assert_int_equal(test_read_end(p->fd, &got), ECONNRESET);
    assert_true(sv_eq(buf_sv(&got), (struct sv){big, MANY}));
    free(big);
    close_pair(p);
}

static void abort_reaches_the_peer_as_a_reset(void **state) {
    (void)state;
    char *big = NULL;
    struct pair *p = open_with_queue(&big);
    loop_call(p->l, do_abort, p);
    AUTO_BUF struct buf got = {0};
    assert_int_equal(test_read_end(p->fd, &got), ECONNRESET);
    assert_true(got.len < MANY);
    free(big);
    close_pair(p);
}

static void a_loop_may_be_freed_while_connections_still_flush(void **state) {
    (void)state;
    char *big = NULL;
    struct pair *p = open_with_queue(&big);
    loop_call(p->l, do_finish, p);
    free(big);
    close_pair(p);
}

static void a_late_byte_of_the_peer_does_not_reset_a_finished_answer(void **state) {
    (void)state;
    struct pair *p = open_pair(true);
    p->to_write = SV("the answer");
    loop_call(p->l, do_write, p);
    loop_call(p->l, do_finish, p);
    test_send(p->fd, SV("late"));
    clock_sleep_ms(10);
    AUTO_BUF struct buf got = {0};
    assert_int_equal(test_read_end(p->fd, &got), 0);
    assert_string_equal(buf_cstr(&got), "the answer");
    close_pair(p);
}

static void a_pause_inside_on_read_holds_what_comes_after(void **state) {
    (void)state;
    struct pair *p = open_pair(true);
    p->pause_after_read = true;
    test_send(p->fd, SV("a"));
    assert_true(test_wait(p->l, has_bytes, p));
    test_send(p->fd, SV("b"));
    shutdown(p->fd, SHUT_WR);
    assert_true(test_wait(p->l, has_hangup, p));
    assert_string_equal(buf_cstr(&p->got), "a");
    p->pause_after_read = false;
    loop_call(p->l, resume, p);
    assert_true(test_wait(p->l, has_eof, p));
    assert_string_equal(buf_cstr(&p->got), "ab");
    close_pair(p);
}

static void adopt(void *arg) {
    struct pair *p = arg;
    struct err err = {0};
    int fds[2];
    BUG_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0);
    BUG_IF(conn_new(p->l, &(struct conn_options){.fd = fds[0]}, &p->c, &err) < 0);
    BUG_IF(!conn_is_unix(p->c));
    conn_set_events(p->c, &events, p);
    p->fd = fds[1];
}

static struct pair *open_unix_pair(void) {
    struct pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->l = test_loop();
    loop_call(p->l, adopt, p);
    return p;
}

static void a_unix_peer_that_leaves_while_reading_is_paused_is_noticed(void **state) {
    (void)state;
    struct pair *p = open_unix_pair();
    test_send(p->fd, SV("unread"));
    close(p->fd);
    p->fd = -1;
    assert_true(test_wait(p->l, has_hangup, p));
    loop_call(p->l, resume, p);
    assert_true(test_wait(p->l, has_eof, p));
    assert_string_equal(buf_cstr(&p->got), "unread");
    close_pair(p);
}

static void an_abort_ends_a_unix_connection(void **state) {
    (void)state;
    struct pair *p = open_unix_pair();
    p->to_write = SV("x");
    loop_call(p->l, do_write, p);
    loop_call(p->l, do_abort, p);
    AUTO_BUF struct buf got = {0};
    assert_int_equal(test_read_end(p->fd, &got), 0);
    assert_string_equal(buf_cstr(&got), "x");
    close_pair(p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes_go_both_ways),
    cmocka_unit_test(nothing_is_read_while_paused),
    cmocka_unit_test(the_peers_end_is_given_after_its_bytes),
    cmocka_unit_test(a_peer_that_ends_while_reading_is_paused_is_noticed),
    cmocka_unit_test(a_peer_that_resets_while_reading_is_paused_is_noticed),
    cmocka_unit_test(a_reset_while_reading_is_told_once),
    cmocka_unit_test(writing_to_a_reset_peer_fails_and_is_told_later),
    cmocka_unit_test(back_pressure_keeps_the_queue_bounded),
    cmocka_unit_test(more_than_the_queue_may_hold_is_refused_whole),
    cmocka_unit_test(finish_sends_all_and_then_an_orderly_end),
    cmocka_unit_test(finish_reset_sends_all_and_then_a_reset),
    cmocka_unit_test(abort_reaches_the_peer_as_a_reset),
    cmocka_unit_test(a_loop_may_be_freed_while_connections_still_flush),
    cmocka_unit_test(a_late_byte_of_the_peer_does_not_reset_a_finished_answer),
    cmocka_unit_test(a_pause_inside_on_read_holds_what_comes_after),
    cmocka_unit_test(a_unix_peer_that_leaves_while_reading_is_paused_is_noticed),
    cmocka_unit_test(an_abort_ends_a_unix_connection),
};

RUN_TESTS(tests)
