/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <sys/socket.h>

/* What a hostile agent sends to the address that it takes for its model. After each attack another
 * connection is served as if nothing had been. */

#define IDLERS 400 /* More than a session may have; few enough for 1,024 descriptors. */

static void answer(struct engine_request *r, void *arg) {
    (void)arg;
    engine_json(r, 200, "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"}}]}");
}

static void check_served(struct fixture *f) {
    struct answer r = fixture_call(f, "{\"messages\":[]}");
    assert_int_equal(r.status, 200);
    answer_deinit(&r);
}

/* The status that the bytes are answered with; 0: the connection was closed without a word. */
static int attack(struct fixture *f, struct sv bytes) {
    struct agent a = agent_connect_unix(f->unix_path);
    agent_send(&a, bytes);
    shutdown(a.fd, SHUT_WR);
    struct answer r = agent_read(&a);
    int status = r.status;
    answer_deinit(&r);
    agent_close(&a);
    return status;
}

static void bytes_that_are_no_request_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        int status;
    } rows[] = {
        {"\x16\x03\x01\x02", 400},
        {"GET / HTTP/1.1\nHost: x\n\n", 400},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
         "Content-Length: 3\r\n\r\n{}",
         400},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
        {"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
         413},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        {"POST /v1/chat/completions HTTP/9.9\r\nHost: x\r\n\r\n", 505},
    };
    struct fixture f;
    fixture_open(&f, answer, NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = attack(&f, sv_from(rows[i].bytes));
        if (status != rows[i].status) {
            fail_msg("row %zu: want %d, got %d", i, rows[i].status, status);
        }
        check_served(&f);
    }
    fixture_close(&f);
}

static void a_head_without_an_end_is_cut_at_its_limit(void **state) {
    (void)state;
    struct fixture f;
    AUTO_BUF struct buf head = {0};
    fixture_open(&f, answer, NULL, NULL);
    assert_int_equal(buf_adds(&head, "GET / HTTP/1.1\r\nHost: x\r\nX: "), 0);
    while (head.len < 70000) {
        assert_int_equal(buf_adds(&head, "aaaaaaaaaaaaaaaa"), 0);
    }
    assert_int_equal(attack(&f, buf_sv(&head)), 431);
    check_served(&f);
    fixture_close(&f);
}

#define POST_HEAD "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
#define HIDDEN POST_HEAD "Content-Length: 2\r\n\r\n{}"

/* What two readers could take for two different things: who believes the other one finds a second
 * request in it. Each is followed by that request. */
static const struct {
    const char *bytes;
    size_t n;
} ambiguous[] = {
#define ROW(text)                                                                                  \
    { text, sizeof text - 1 }
    ROW(POST_HEAD "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length: 2, 2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length: +2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length: -2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length: 0x2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length: 2 2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length:\r\n\r\n"),
    ROW(POST_HEAD "Content-Length: 18446744073709551618\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length : 2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length\t: 2\r\n\r\n{}"),
    ROW(POST_HEAD " Content-Length: 2\r\n\r\n{}"),
    ROW(POST_HEAD "X: y\r\n Content-Length: 2\r\n\r\n{}"),
    ROW(POST_HEAD "X: y\r\n\tContent-Length: 2\r\n\r\n{}"),
    ROW(POST_HEAD "Content\0Length: 2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length: 2\0\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length\0: 2\r\n\r\n{}"),
    ROW(POST_HEAD "Content_Length 2\r\n\r\n{}"),
    ROW(POST_HEAD "X: a\nContent-Length: 2\r\n\r\n{}"),
    ROW(POST_HEAD "X: a\rContent-Length: 2\r\n\r\n{}"),
    ROW(POST_HEAD "Content-Length: 2\r\n\n{}"),
    ROW(POST_HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: identity\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding:\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: \x0b"
                  "chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW("POST /v1/chat/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n+2\r\n{}\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n2;a\nb\r\n{}\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n"),
    ROW(POST_HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: a\n\r\n"),
    ROW(POST_HEAD "Host: y\r\nContent-Length: 2\r\n\r\n{}"),
    ROW("POST /v1/chat/completions\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"),
    ROW("POST /v1/chat/completions HTTP/1.1\nHost: x\nContent-Length: 2\n\n{}"),
    ROW("POST /v1/chat completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"),
#undef ROW
};

static unsigned count_answers(struct sv bytes) {
    unsigned n = 0;
    for (size_t at; (at = sv_find(bytes, SV("HTTP/1.1 "))) != (size_t)-1; n++) {
        bytes = sv_cut(bytes, at + 9);
    }
    return n;
}

static void a_request_hidden_in_another_is_never_carried_out(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, answer, NULL, NULL);
    for (size_t i = 0; i < sizeof ambiguous / sizeof *ambiguous; i++) {
        AUTO_BUF struct buf got = {0};
        char bytes[4096];
        ssize_t n;
        struct agent a = agent_connect_unix(f.unix_path);
        agent_send(&a, (struct sv){ambiguous[i].bytes, ambiguous[i].n});
        /* It may be refused, and the connection closed, before this is sent. */
        (void)send(a.fd, HIDDEN, sizeof HIDDEN - 1, MSG_NOSIGNAL);
        shutdown(a.fd, SHUT_WR);
        while ((n = recv(a.fd, bytes, sizeof bytes, 0)) > 0) {
            assert_int_equal(buf_add(&got, bytes, (size_t)n), 0);
        }
        if (count_answers(buf_sv(&got)) != 1 ||
            !(strstr(buf_cstr(&got), "HTTP/1.1 4") || strstr(buf_cstr(&got), "HTTP/1.1 501"))) {
            fail_msg("row %zu: %s", i, buf_cstr(&got));
        }
        agent_close(&a);
    }
    struct gateway_stats all;
    gateway_stats(f.gateway, &all);
    assert_int_equal(all.calls, 0);
    assert_int_equal(engine_requests(f.engine), 0);
    check_served(&f);
    fixture_close(&f);
}

static int status_of(struct fixture *f, const char *path, const char *token, const char *body) {
    struct agent a = agent_connect_tcp(f->port);
    agent_post(&a, path, token, sv_from(body));
    struct answer r = agent_read(&a);
    int status = r.status;
    answer_deinit(&r);
    agent_close(&a);
    return status;
}

static void a_token_is_right_as_a_whole_or_not_at_all(void **state) {
    (void)state;
    struct fixture f;
    char token[64];
    char path[128];
    fixture_open(&f, answer, NULL, NULL);
    const char *right = gateway_session_token(f.session);
    size_t n = strlen(right);
    for (size_t i = 0; i <= n; i++) {
        snprintf(token, sizeof token, "%s", right);
        if (i < n) {
            token[i] = token[i] == '0' ? '1' : '0';
        } else {
            token[n] = '0'; /* One byte too many. */
            token[n + 1] = 0;
        }
        assert_int_equal(status_of(&f, "/v1/chat/completions", token, "{}"), 401);
        snprintf(path, sizeof path, "/s/%s/v1/chat/completions", token);
        assert_int_equal(status_of(&f, path, right, "{}"), 401);
        snprintf(token, sizeof token, "%.*s", (int)(i < n ? i : 0), right);
        assert_int_equal(status_of(&f, "/v1/chat/completions", token, "{}"), 401);
    }
    assert_int_equal(status_of(&f, "/v1/chat/completions", right, "{}"), 200);
    fixture_close(&f);
}

static void who_has_no_token_can_t_make_the_gateway_hold_a_body(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, answer, NULL, NULL);
    struct agent a = agent_connect_tcp(f.port);
    agent_send(&a, SV(POST_HEAD "Content-Length: 60000000\r\n\r\n{"));
    struct answer r = agent_read(&a); /* Without the rest of it. */
    assert_int_equal(r.status, 401);
    assert_non_null(strcasestr(buf_cstr(&r.head), "Connection: close\r\n"));
    answer_deinit(&r);
    agent_close(&a);
    fixture_close(&f);
}

static void many_that_never_finish_their_head_keep_nobody_out(void **state) {
    (void)state;
    struct fixture f;
    struct agent idlers[IDLERS];
    fixture_open(&f, answer, NULL, NULL);
    for (size_t i = 0; i < IDLERS; i++) {
        idlers[i] = agent_connect_unix(f.unix_path);
        agent_send(&idlers[i], SV("POST /v1/chat/completions HTTP/1.1\r\nHo"));
    }
    for (int i = 0; i < 10; i++) {
        check_served(&f);
    }
    for (size_t i = 0; i < IDLERS; i++) {
        agent_close(&idlers[i]);
    }
    check_served(&f);
    fixture_close(&f);
}

static void whose_call_it_is_follows_from_the_socket_and_not_from_headers(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, answer, NULL, NULL);
    struct agent a = agent_connect_unix(f.unix_path);
    agent_send(&a, SV("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                      "X-Session-Id: of-another\r\nAuthorization: Bearer of-another\r\n"
                      "Content-Length: 2\r\n\r\n{}"));
    struct answer r = agent_read(&a);
    assert_int_equal(r.status, 200);
    answer_deinit(&r);
    agent_close(&a);
    fixture_await_result(&f, 1);
    struct recorded call = fixture_read(&f, 1);
    assert_int_equal(call.intents, 1);
    assert_string_equal(text_of(call.intent, "agent_session"), "of-another");
    recorded_deinit(&call);
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes_that_are_no_request_are_refused),
    cmocka_unit_test(a_head_without_an_end_is_cut_at_its_limit),
    cmocka_unit_test(a_request_hidden_in_another_is_never_carried_out),
    cmocka_unit_test(a_token_is_right_as_a_whole_or_not_at_all),
    cmocka_unit_test(who_has_no_token_can_t_make_the_gateway_hold_a_body),
    cmocka_unit_test(many_that_never_finish_their_head_keep_nobody_out),
    cmocka_unit_test(whose_call_it_is_follows_from_the_socket_and_not_from_headers),
};

RUN_TESTS(tests)
