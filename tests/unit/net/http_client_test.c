/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http_client.h"

#include <pthread.h>

#include "base/mem.h"
#include "net/server.h"
#include "tests/unit/net/net_testing.h"

struct place {
    struct loop *l;
    struct server *server;
    char url[64];
    char unix_path[64];
};

static void on_gone(struct exchange *x, void *arg) {
    (void)arg;
    exchange_cut(x, EXCHANGE_CUT_FIN);
}

static void on_request(struct exchange *x, void *arg) {
    (void)arg;
    struct sv path = exchange_path(x);
    if (sv_eq(path, SV("/hang"))) {
        exchange_on_gone(x, on_gone, NULL);
    } else if (sv_eq(path, SV("/cut"))) {
        exchange_start(x, 200, NULL, 0, HTTP1_LENGTH, 100);
        exchange_send(x, SV("part"));
        exchange_cut(x, EXCHANGE_CUT_FIN);
    } else if (sv_eq(path, SV("/big"))) {
        exchange_reply(x, 200, SV("text/plain"), SV("0123456789"));
    } else if (sv_eq(path, SV("/moved"))) {
        struct server_field to = {SV("Location"), SV("/elsewhere")};
        exchange_start(x, 302, &to, 1, HTTP1_LENGTH, 0);
        exchange_end(x);
    } else {
        AUTO_BUF struct buf b = {0};
        BUG_IF(buf_addf(&b, "%.*s %.*s %.*s %.*s", SV_ARG(exchange_head(x)->method),
                        SV_ARG(http1_get(exchange_head(x), SV("Content-Type"))),
                        SV_ARG(http1_get(exchange_head(x), SV("Authorization"))),
                        SV_ARG(exchange_body(x))) < 0);
        exchange_reply(x, 201, SV("text/plain"), buf_sv(&b));
    }
}

static void open_place(struct place *p, const char *path) {
    struct err err = {0};
    p->l = test_loop();
    struct server_options o = {.on_request = on_request};
    assert_ok(server_new(p->l, &o, &p->server, &err), &err);
    snprintf(p->url, sizeof p->url, "http://127.0.0.1:%u%s", (unsigned)server_port(p->server),
             path);
}

static void close_place(struct place *p) {
    server_free(p->server);
    loop_free(p->l);
}

static void any_status_with_body_and_head_is_an_answer(void **state) {
    (void)state;
    struct place p = {0};
    struct http_answer a = {0};
    struct err err = {0};
    open_place(&p, "/");
    const char *const headers[] = {"Authorization: Bearer k", NULL};
    struct http_call call = {.url = p.url, .headers = headers, .body = SV("{\"a\":1}")};
    assert_ok(http_call_json(&call, &a, &err), &err);
    assert_int_equal(a.status, 201);
    assert_string_equal(buf_cstr(&a.body), "POST application/json Bearer k {\"a\":1}");
    assert_true(sv_starts_with(buf_sv(&a.head), SV("HTTP/1.1 201 Created\r\n")));
    http_answer_deinit(&a);
    call = (struct http_call){.url = p.url, .method = "DELETE"};
    assert_ok(http_call(&call, &a, &err), &err);
    assert_string_equal(buf_cstr(&a.body), "DELETE   ");
    http_answer_deinit(&a);
    close_place(&p);
}

static void proxies_are_not_used_for_loopback(void **state) {
    (void)state;
    struct place p = {0};
    struct http_answer a = {0};
    struct err err = {0};
    open_place(&p, "/");
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    int r = http_call(&(struct http_call){.url = p.url}, &a, &err);
    unsetenv("http_proxy");
    assert_ok(r, &err);
    http_answer_deinit(&a);
    close_place(&p);
}

static void redirects_are_not_followed(void **state) {
    (void)state;
    struct place p = {0};
    struct http_answer a = {0};
    struct err err = {0};
    open_place(&p, "/moved");
    assert_ok(http_call(&(struct http_call){.url = p.url}, &a, &err), &err);
    assert_int_equal(a.status, 302);
    http_answer_deinit(&a);
    close_place(&p);
}

static void an_answer_over_the_limit_is_refused(void **state) {
    (void)state;
    struct place p = {0};
    struct http_answer a = {0};
    struct err err = {0};
    open_place(&p, "/big");
    struct http_call call = {.url = p.url, .answer_max = 9};
    assert_err(http_call(&call, &a, &err), ERR_LIMIT, &err, "too long");
    call.answer_max = 10;
    assert_ok(http_call(&call, &a, &err), &err);
    http_answer_deinit(&a);
    close_place(&p);
}

static void failures_have_their_own_codes(void **state) {
    (void)state;
    struct place p = {0};
    struct http_answer a = {0};
    struct err err = {0};
    open_place(&p, "/cut");
    struct http_call call = {.url = p.url};
    assert_err(http_call(&call, &a, &err), ERR_CLOSED, &err, "cut off");
    close_place(&p);
    assert_err(http_call(&call, &a, &err), ERR_CONNECT, &err, "'127.0.0.1'");
    call.url = "ftp://x/";
    assert_err(http_call(&call, &a, &err), ERR_INPUT, &err, "http");
    const char *const headers[] = {"X: 1\r\nY: secret", NULL};
    call = (struct http_call){.url = p.url, .headers = headers};
    assert_err(http_call(&call, &a, &err), ERR_INPUT, &err, "header");
    assert_null(strstr(err.msg, "secret"));
    assert_null(a.body.data);
}

static void *throw_soon(void *arg) {
    clock_sleep_ms(20);
    cancel_throw(arg);
    return NULL;
}

static void a_call_ends_at_its_deadline_or_when_cancelled(void **state) {
    (void)state;
    struct place p = {0};
    struct http_answer a = {0};
    struct err err = {0};
    struct cancel *c = NULL;
    pthread_t thread;
    open_place(&p, "/hang");
    struct http_call call = {.url = p.url, .deadline = deadline_in_ms(30)};
    assert_err(http_call(&call, &a, &err), ERR_TIMEOUT, &err, "in time");
    assert_ok(cancel_new(&c, &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, throw_soon, c), 0);
    call = (struct http_call){.url = p.url, .cancel = c};
    assert_err(http_call(&call, &a, &err), ERR_CANCELLED, &err, "cancelled");
    pthread_join(thread, NULL);
    cancel_free(c);
    close_place(&p);
}

static void a_unix_socket_is_reached(void **state) {
    (void)state;
    char dir[] = "/tmp/snaffle-client-XXXXXX";
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *path = mem_printf("%s/sock", dir);
    struct loop *l = test_loop();
    struct server *server = NULL;
    struct http_answer a = {0};
    struct err err = {0};
    struct server_options o = {.unix_path = path, .on_request = on_request};
    assert_ok(server_new(l, &o, &server, &err), &err);
    struct http_call call = {.url = "http://any.example/", .unix_socket = path};
    assert_ok(http_call(&call, &a, &err), &err);
    assert_int_equal(a.status, 201);
    http_answer_deinit(&a);
    server_free(server);
    loop_free(l);
    rmdir(dir);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_status_with_body_and_head_is_an_answer),
    cmocka_unit_test(proxies_are_not_used_for_loopback),
    cmocka_unit_test(redirects_are_not_followed),
    cmocka_unit_test(an_answer_over_the_limit_is_refused),
    cmocka_unit_test(failures_have_their_own_codes),
    cmocka_unit_test(a_call_ends_at_its_deadline_or_when_cancelled),
    cmocka_unit_test(a_unix_socket_is_reached),
};

RUN_TESTS(tests)
