/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/tls.h"

#include <signal.h>

#include "net/dial.h"
#include "tests/unit/net/tls_testing.h"

#define MANY (4u * 1024 * 1024)

struct client {
    struct loop *l;
    struct tls_context *tls;
    struct tls_peer peer;
    struct dial_options o;
    struct conn *c;
    struct err err;
    struct buf got;
    bool done, eof, truncated, gone;
    bool pause_each;
    int pauses;
    struct sv to_write;
};

static void on_read(struct conn *c, struct sv bytes, void *arg) {
    struct client *k = arg;
    BUG_IF(buf_add_sv(&k->got, bytes) < 0);
    if (k->pause_each) {
        k->pauses++;
        conn_read_pause(c);
    }
}

static void on_eof(struct conn *c, bool truncated, void *arg) {
    struct client *k = arg;
    (void)c;
    k->eof = true;
    k->truncated = truncated;
}

static void on_gone(struct conn *c, const struct err *err, void *arg) {
    struct client *k = arg;
    (void)c;
    k->gone = true;
    k->err = *err;
}

static const struct conn_events events = {.on_read = on_read, .on_eof = on_eof, .on_gone = on_gone};

static void on_done(struct conn *c, const struct err *err, void *arg) {
    struct client *k = arg;
    k->done = true;
    k->c = c;
    if (err) {
        k->err = *err;
        return;
    }
    conn_set_events(c, &events, k);
    conn_read_resume(c);
    if (k->to_write.n > 0) {
        BUG_IF(conn_write(c, k->to_write) < 0);
    }
}

static void start(void *arg) {
    struct client *k = arg;
    struct dial *d = NULL;
    BUG_IF(dial_start(k->l, &k->o, &d, NULL) < 0);
}

static bool is_done(void *arg) {
    return ((struct client *)arg)->done;
}

static bool is_over(void *arg) {
    struct client *k = arg;
    if (k->c && k->pause_each && conn_read_is_paused(k->c)) {
        conn_read_resume(k->c);
    }
    return k->eof || k->gone;
}

static void drop(void *arg) {
    struct client *k = arg;
    conn_abort(k->c);
}

static void open_client(struct client *k, void (*serve)(SSL *ssl)) {
    k->l = test_loop();
    tls_peer_start(&k->peer, serve);
    assert_ok(tls_context_new(k->peer.ca_path, &k->tls, &k->err), &k->err);
    k->o = (struct dial_options){
        .host = "localhost", .port = k->peer.port, .tls = k->tls, .on_done = on_done, .arg = k};
}

static void connect_client(struct client *k) {
    loop_call(k->l, start, k);
    assert_true(test_wait(k->l, is_done, k));
}

static void close_client(struct client *k) {
    loop_call(k->l, drop, k);
    loop_free(k->l);
    tls_peer_stop(&k->peer);
    tls_context_free(k->tls);
    buf_deinit(&k->got);
}

static void serve_echo(SSL *ssl) {
    char bytes[16384];
    size_t total = 0;
    int n;
    while (total < MANY && (n = SSL_read(ssl, bytes, sizeof bytes)) > 0) {
        total += (size_t)n;
        if (SSL_write(ssl, bytes, n) != n) {
            return;
        }
    }
    SSL_shutdown(ssl);
}

static void serve_truncated(SSL *ssl) {
    SSL_write(ssl, "half", 4);
    SSL_set_quiet_shutdown(ssl, 1);
}

static void serve_reset(SSL *ssl) {
    struct linger now = {.l_onoff = 1};
    SSL_write(ssl, "half", 4);
    clock_sleep_ms(20);
    setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    SSL_set_quiet_shutdown(ssl, 1);
}

static void serve_many(SSL *ssl) {
    static char bytes[MANY];
    for (size_t i = 0; i < MANY; i++) {
        bytes[i] = (char)(i * 31 >> 3);
    }
    SSL_write(ssl, bytes, MANY);
    SSL_shutdown(ssl);
}

static void serve_nothing(SSL *ssl) {
    char byte;
    SSL_read(ssl, &byte, 1);
}

static char *make_many(void) {
    char *big = malloc(MANY);
    assert_non_null(big);
    for (size_t i = 0; i < MANY; i++) {
        big[i] = (char)(i * 31 >> 3);
    }
    return big;
}

static void megabytes_are_echoed_and_end_with_the_closing_alert(void **state) {
    (void)state;
    struct client k = {0};
    char *big = make_many();
    k.to_write = (struct sv){big, MANY};
    open_client(&k, serve_echo);
    connect_client(&k);
    assert_true(test_wait(k.l, is_over, &k));
    assert_true(k.eof);
    assert_false(k.truncated);
    assert_true(sv_eq(buf_sv(&k.got), k.to_write));
    close_client(&k);
    free(big);
}

static void pausing_after_each_read_loses_nothing(void **state) {
    (void)state;
    struct client k = {.pause_each = true};
    char *big = make_many();
    open_client(&k, serve_many);
    connect_client(&k);
    assert_true(test_wait(k.l, is_over, &k));
    assert_true(k.eof);
    assert_true(k.pauses > 10);
    assert_true(sv_eq(buf_sv(&k.got), (struct sv){big, MANY}));
    close_client(&k);
    free(big);
}

static void an_end_without_closing_alert_is_told_as_truncated(void **state) {
    (void)state;
    struct client k = {0};
    open_client(&k, serve_truncated);
    connect_client(&k);
    assert_true(test_wait(k.l, is_over, &k));
    assert_string_equal(buf_cstr(&k.got), "half");
    assert_true(k.eof);
    assert_true(k.truncated);
    close_client(&k);
}

static void a_reset_under_tls_is_told_as_lost(void **state) {
    (void)state;
    struct client k = {0};
    open_client(&k, serve_reset);
    connect_client(&k);
    assert_true(test_wait(k.l, is_over, &k));
    assert_true(k.gone);
    assert_false(k.eof);
    close_client(&k);
}

static void a_certificate_for_another_name_is_refused(void **state) {
    (void)state;
    struct client k = {0};
    open_client(&k, serve_nothing);
    k.o.host = "127.0.0.1";
    connect_client(&k);
    assert_null(k.c);
    assert_int_equal(k.err.code, ERR_CONNECT);
    assert_non_null(strstr(k.err.msg, "mismatch"));
    close_client(&k);
}

static void an_unknown_authority_is_refused(void **state) {
    (void)state;
    struct client k = {0};
    struct tls_context *other = NULL;
    open_client(&k, serve_nothing);
    assert_ok(tls_context_new(NULL, &other, &k.err), &k.err);
    k.o.tls = other;
    connect_client(&k);
    assert_null(k.c);
    assert_int_equal(k.err.code, ERR_CONNECT);
    assert_non_null(strstr(k.err.msg, "certificate"));
    close_client(&k);
    tls_context_free(other);
}

static void the_environments_certificates_are_used(void **state) {
    (void)state;
    struct client k = {0};
    struct tls_context *ours = NULL;
    open_client(&k, serve_nothing);
    setenv("SSL_CERT_FILE", k.peer.ca_path, 1);
    assert_ok(tls_context_new(NULL, &ours, &k.err), &k.err);
    unsetenv("SSL_CERT_FILE");
    k.o.tls = ours;
    connect_client(&k);
    assert_non_null(k.c);
    close_client(&k);
    tls_context_free(ours);
}

static void a_missing_certificate_file_is_named(void **state) {
    (void)state;
    struct tls_context *ctx = NULL;
    struct err err = {0};
    assert_err(tls_context_new("/nonexistent.pem", &ctx, &err), ERR_INPUT, &err,
               "'/nonexistent.pem'");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(megabytes_are_echoed_and_end_with_the_closing_alert),
    cmocka_unit_test(pausing_after_each_read_loses_nothing),
    cmocka_unit_test(an_end_without_closing_alert_is_told_as_truncated),
    cmocka_unit_test(a_reset_under_tls_is_told_as_lost),
    cmocka_unit_test(a_certificate_for_another_name_is_refused),
    cmocka_unit_test(an_unknown_authority_is_refused),
    cmocka_unit_test(the_environments_certificates_are_used),
    cmocka_unit_test(a_missing_certificate_file_is_named),
};

RUN_TESTS(tests)
