/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/dial.h"

#include "net/listener.h"
#include "tests/unit/net/net_testing.h"

struct call {
    struct loop *l;
    struct dial_options o;
    struct dial *dial;
    struct conn *c;
    struct err err;
    int done;
    bool in_call;
};

static void on_done(struct conn *c, const struct err *err, void *arg) {
    struct call *call = arg;
    BUG_IF(call->in_call);
    call->done++;
    call->c = c;
    if (err) {
        call->err = *err;
    }
}

static void start(void *arg) {
    struct call *call = arg;
    call->in_call = true;
    call->o.on_done = on_done;
    call->o.arg = call;
    BUG_IF(dial_start(call->l, &call->o, &call->dial, NULL) < 0);
    call->in_call = false;
}

static void drop(void *arg) {
    struct call *call = arg;
    conn_abort(call->c);
}

static bool is_done(void *arg) {
    return ((struct call *)arg)->done > 0;
}

static void dial(struct call *call) {
    call->l = test_loop();
    loop_call(call->l, start, call);
    assert_true(test_wait(call->l, is_done, call));
    loop_call(call->l, drop, call);
    loop_free(call->l);
    assert_int_equal(call->done, 1);
}

/* A listening socket that nobody accepts from. */
static uint16_t listen_plain(int *fd) {
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t n = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(*fd, 16), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&a, &n), 0);
    return ntohs(a.sin_port);
}

static void an_address_and_a_name_are_reached(void **state) {
    (void)state;
    int fd;
    uint16_t port = listen_plain(&fd);
    struct call literal = {.o = {.host = "127.0.0.1", .port = port}};
    dial(&literal);
    assert_non_null(literal.c);
    struct call name = {.o = {.host = "localhost", .port = port}};
    dial(&name);
    assert_non_null(name.c);
    close(fd);
}

static void a_refused_connection_says_so(void **state) {
    (void)state;
    int fd;
    uint16_t port = listen_plain(&fd);
    close(fd);
    struct call call = {.o = {.host = "127.0.0.1", .port = port}};
    dial(&call);
    assert_null(call.c);
    assert_int_equal(call.err.code, ERR_CONNECT);
    assert_non_null(strstr(call.err.msg, "cannot connect to '127.0.0.1' port"));
    assert_non_null(strstr(call.err.msg, "Connection refused"));
}

static void a_name_that_is_none_is_an_error(void **state) {
    (void)state;
    struct call call = {.o = {.host = "no..such", .port = 1}};
    dial(&call);
    assert_null(call.c);
    assert_int_equal(call.err.code, ERR_CONNECT);
    assert_non_null(strstr(call.err.msg, "'no..such'"));
}

static void a_missing_unix_socket_is_an_error(void **state) {
    (void)state;
    struct call call = {.o = {.unix_path = "/nonexistent/sock"}};
    dial(&call);
    assert_null(call.c);
    assert_int_equal(call.err.code, ERR_CONNECT);
    assert_non_null(strstr(call.err.msg, "/nonexistent/sock"));
}

static void a_peer_that_never_shakes_hands_runs_out_of_time(void **state) {
    (void)state;
    int fd;
    uint16_t port = listen_plain(&fd);
    struct tls_context *tls = NULL;
    struct err err = {0};
    assert_ok(tls_context_new(NULL, &tls, &err), &err);
    struct call call = {.o = {.host = "127.0.0.1", .port = port, .tls = tls, .timeout_ms = 50}};
    dial(&call);
    assert_null(call.c);
    assert_int_equal(call.err.code, ERR_TIMEOUT);
    tls_context_free(tls);
    close(fd);
}

static void what_a_stranger_names_is_looked_at_after_its_look_up(void **state) {
    static const char *const bad[] = {"169.254.169.254", "0xa9fea9fe", "::ffff:169.254.1.1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct call call = {.o = {.host = bad[i], .port = 9, .is_strangers = true}};
        dial(&call);
        assert_null(call.c);
        assert_err(call.err.code, ERR_DENIED, &call.err, "link-local");
    }
    int fd;
    uint16_t port = listen_plain(&fd);
    struct call good = {.o = {.host = "localhost", .port = port, .is_strangers = true}};
    dial(&good);
    assert_non_null(good.c);
    close(fd);
}

static void cancel(void *arg) {
    struct call *call = arg;
    start(call);
    dial_cancel(call->dial);
}

static void a_cancelled_dial_is_never_heard_of_again(void **state) {
    (void)state;
    int fd;
    uint16_t port = listen_plain(&fd);
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    for (int i = 0; i < 2; i++) {
        struct call call = {.l = test_loop(), .o = {.host = hosts[i], .port = port}};
        loop_call(call.l, cancel, &call);
        clock_sleep_ms(20);
        loop_free(call.l);
        assert_int_equal(call.done, 0);
    }
    close(fd);
}

static void cancel_later(void *arg) {
    struct call *call = arg;
    dial_cancel(call->dial);
}

static void a_dial_may_be_cancelled_in_the_middle_of_a_handshake(void **state) {
    (void)state;
    int fd;
    uint16_t port = listen_plain(&fd);
    struct tls_context *tls = NULL;
    struct err err = {0};
    assert_ok(tls_context_new(NULL, &tls, &err), &err);
    struct call call = {.l = test_loop(), .o = {.host = "localhost", .port = port, .tls = tls}};
    loop_call(call.l, start, &call);
    clock_sleep_ms(20);
    loop_call(call.l, cancel_later, &call);
    loop_free(call.l);
    assert_int_equal(call.done, 0);
    tls_context_free(tls);
    close(fd);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_address_and_a_name_are_reached),
    cmocka_unit_test(a_refused_connection_says_so),
    cmocka_unit_test(a_name_that_is_none_is_an_error),
    cmocka_unit_test(a_missing_unix_socket_is_an_error),
    cmocka_unit_test(a_peer_that_never_shakes_hands_runs_out_of_time),
    cmocka_unit_test(what_a_stranger_names_is_looked_at_after_its_look_up),
    cmocka_unit_test(a_cancelled_dial_is_never_heard_of_again),
    cmocka_unit_test(a_dial_may_be_cancelled_in_the_middle_of_a_handshake),
};

RUN_TESTS(tests)
