/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <sys/socket.h>

/* What a hostile agent sends to the address that it takes for its model. After each attack another
 * connection is served as if nothing had been. */

#define IDLERS 400 /* Enough to outnumber any fixed table; few enough for 1,024 descriptors. */

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

/* Two framings for one body: who believes the other one finds a second request in it. */
static void a_request_hidden_in_another_is_never_carried_out(void **state) {
    (void)state;
    struct fixture f;
    fixture_open(&f, answer, NULL, NULL);
    assert_int_equal(attack(&f, SV("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                                   "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "0\r\n\r\nPOST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                                   "Content-Length: 2\r\n\r\n{}")),
                     400);
    struct gateway_session_stats stats;
    gateway_session_stats(f.session, &stats);
    assert_int_equal(stats.calls, 0);
    check_served(&f);
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
    cmocka_unit_test(many_that_never_finish_their_head_keep_nobody_out),
    cmocka_unit_test(whose_call_it_is_follows_from_the_socket_and_not_from_headers),
};

RUN_TESTS(tests)
