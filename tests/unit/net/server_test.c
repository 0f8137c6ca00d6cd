/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/server.h"

#include "tests/unit/net/net_testing.h"

struct room {
    struct loop *l;
    struct server *server;
    struct exchange *held;
    struct conn *taken;
    struct buf early;
    int requests, gones, drains, steps;
    size_t max_queued;
};

/* --- the handler: one path, one behaviour --- */

static void reply_echo(struct exchange *x) {
    AUTO_BUF struct buf b = {0};
    BUG_IF(buf_addf(&b, "%.*s %.*s [%.*s]", SV_ARG(exchange_head(x)->method),
                    SV_ARG(exchange_path(x)), SV_ARG(exchange_query(x))) < 0);
    BUG_IF(buf_add_sv(&b, exchange_body(x)) < 0);
    exchange_reply(x, 200, SV("text/plain"), buf_sv(&b));
}

static const struct server_field sse_fields[] = {
    {{"Content-Type", 12}, {"text/event-stream", 17}},
};

static void step(struct exchange *x, void *arg) {
    struct room *r = arg;
    if (++r->steps < 4) {
        exchange_send(x, SV("data: x\n\n"));
        exchange_after(x, 2, step, r);
    } else {
        exchange_end(x);
    }
}

static void on_gone(struct exchange *x, void *arg) {
    struct room *r = arg;
    r->gones++;
    r->held = NULL;
    BUG_IF(!exchange_is_gone(x) || exchange_send_raw(x, SV("x")) != ERR_CLOSED);
    exchange_cut(x, EXCHANGE_CUT_FIN);
}

static void fill(struct exchange *x, void *arg) {
    static char piece[65536];
    struct room *r = arg;
    r->drains++;
    if (r->drains == 20) {
        exchange_end(x);
        return;
    }
    do {
        exchange_send(x, (struct sv){piece, sizeof piece});
    } while (!exchange_is_full(x));
}

static void take(struct exchange *x, struct room *r) {
    struct err err = {0};
    exchange_send_raw(x, SV("HTTP/1.1 101 Switching Protocols\r\n\r\n"));
    BUG_IF(exchange_take(x, &r->taken, &r->early, &err) < 0);
    BUG_IF(conn_write(r->taken, SV("mine now")) < 0);
    conn_finish(r->taken);
}

static void on_request(struct exchange *x, void *arg) {
    struct room *r = arg;
    struct sv path = exchange_path(x);
    r->requests++;
    if (sv_eq(path, SV("/stream"))) {
        exchange_start(x, 200, sse_fields, 1, HTTP1_CHUNKED, 0);
        exchange_after(x, 1, step, r);
    } else if (sv_eq(path, SV("/cut")) || sv_eq(path, SV("/reset"))) {
        exchange_start(x, 200, sse_fields, 1, HTTP1_CHUNKED, 0);
        exchange_send_raw(x, SV("ff\r\nhalf a chunk"));
        exchange_cut(x, sv_eq(path, SV("/cut")) ? EXCHANGE_CUT_FIN : EXCHANGE_CUT_RESET);
    } else if (sv_eq(path, SV("/raw"))) {
        exchange_send_raw(x, SV("HTTP/1.1 299 Mine\r\nContent-Length: 2\r\n\r\nok"));
        exchange_end(x);
    } else if (sv_eq(path, SV("/short"))) {
        exchange_start(x, 200, NULL, 0, HTTP1_LENGTH, 10);
        exchange_send(x, SV("123"));
        exchange_end(x);
    } else if (sv_eq(path, SV("/close"))) {
        exchange_start(x, 200, NULL, 0, HTTP1_UNTIL_CLOSE, 0);
        exchange_send(x, SV("to the end"));
        exchange_end(x);
    } else if (sv_eq(path, SV("/hold"))) {
        r->held = x;
        exchange_on_gone(x, on_gone, r);
    } else if (sv_eq(path, SV("/flood"))) {
        exchange_start(x, 200, NULL, 0, HTTP1_CHUNKED, 0);
        exchange_on_drain(x, fill, r);
        fill(x, r);
    } else if (sv_eq(path, SV("/take"))) {
        take(x, r);
    } else if (sv_eq(path, SV("/err"))) {
        struct err err = {0};
        err_set(&err, ERR_NOT_FOUND, "no \"such\" thing");
        exchange_reply_err(x, &err);
    } else {
        reply_echo(x);
    }
}

/* --- the tests --- */

static struct room *open_room(void) {
    struct room *r = calloc(1, sizeof *r);
    struct err err = {0};
    assert_non_null(r);
    r->l = test_loop();
    struct server_options o = {.body_max = 1000,
                               .head_ms = 60,
                               .body_ms = 60,
                               .idle_ms = 60,
                               .on_request = on_request,
                               .arg = r};
    assert_ok(server_new(r->l, &o, &r->server, &err), &err);
    return r;
}

static void close_room(struct room *r) {
    server_free(r->server);
    loop_free(r->l);
    buf_deinit(&r->early);
    free(r);
}

/* Sends `request`, reads to the end of the connection, wants the answer to hold `words`. */
static int ask(struct room *r, const char *request, struct buf *answer) {
    int fd = test_connect(server_port(r->server));
    test_send(fd, sv_from(request));
    int end = test_read_end(fd, answer);
    close(fd);
    return end;
}

static void expect(const char *request, const char *want) {
    struct room *r = open_room();
    AUTO_BUF struct buf answer = {0};
    int end = ask(r, request, &answer);
    if (end != 0 || strcmp(buf_cstr(&answer), want) != 0) {
        fail_msg("'%s': want '%s', got '%s' and errno %d", request, want, buf_cstr(&answer), end);
    }
    close_room(r);
}

#define OK(n, body)                                                                                \
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " n "\r\n\r\n" body

static void a_request_is_answered_and_the_connection_kept(void **state) {
    (void)state;
    struct room *r = open_room();
    int fd = test_connect(server_port(r->server));
    for (int i = 0; i < 3; i++) {
        AUTO_BUF struct buf answer = {0};
        test_send(fd, SV("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"));
        test_read_until(fd, &answer, "body");
        assert_string_equal(buf_cstr(&answer), OK("17", "POST /a [b=c]body"));
    }
    close(fd);
    assert_int_equal(r->requests, 3);
    close_room(r);
}

static void pipelined_requests_are_answered_in_order(void **state) {
    (void)state;
    expect("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /stream HTTP/1.1\r\nHost: x\r\n\r\n"
           "GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
           OK("9", "GET /1 []") "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n"
                                "9\r\ndata: x\n\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n"
                                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                "Content-Length: 9\r\nConnection: close\r\n\r\nGET /2 []");
}

static void a_chunked_request_and_http_1_0_are_served(void **state) {
    (void)state;
    expect("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
           "3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n"
           "Connection: close\r\n\r\nPOST / []abcde");
    expect("GET /stream HTTP/1.0\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
           "data: x\n\ndata: x\n\ndata: x\n\n");
}

static void a_head_request_gets_no_body(void **state) {
    (void)state;
    expect("HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n"
           "Connection: close\r\n\r\n");
}

static void an_expectation_is_answered_with_100(void **state) {
    (void)state;
    struct room *r = open_room();
    int fd = test_connect(server_port(r->server));
    AUTO_BUF struct buf answer = {0};
    test_send(fd, SV("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                     "Content-Length: 2\r\n\r\n"));
    test_read_until(fd, &answer, "HTTP/1.1 100 Continue\r\n\r\n");
    test_send(fd, SV("hi"));
    test_read_until(fd, &answer, "POST / []hi");
    close(fd);
    close_room(r);
}

static void refusals_are_told_and_end_the_connection(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n", "HTTP/1.1 413 "},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400 "},
        {"GET / HTTP/2.0\r\n\r\n", "HTTP/1.1 505 "},
        {"\x16\x03\x01\x02", "HTTP/1.1 400 "},
    };
    struct room *r = open_room();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        AUTO_BUF struct buf answer = {0};
        assert_int_equal(ask(r, rows[i][0], &answer), 0);
        assert_true(sv_starts_with(buf_sv(&answer), sv_from(rows[i][1])));
        assert_non_null(strstr(buf_cstr(&answer), "{\"error\":{\"message\":\""));
    }
    assert_int_equal(r->requests, 0);
    close_room(r);
}

static void a_chunked_body_over_the_limit_is_refused(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf request = {0};
    AUTO_BUF struct buf answer = {0};
    assert_int_equal(buf_adds(&request, "POST / HTTP/1.1\r\nHost: x\r\n"
                                        "Transfer-Encoding: chunked\r\n\r\n3e9\r\n"),
                     0);
    for (int i = 0; i < 1001; i++) {
        assert_int_equal(buf_addc(&request, 'x'), 0);
    }
    assert_int_equal(ask(r, buf_cstr(&request), &answer), 0);
    assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 413 ")));
    close_room(r);
}

static void a_bomb_of_fields_is_refused(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf request = {0};
    AUTO_BUF struct buf answer = {0};
    assert_int_equal(buf_adds(&request, "GET / HTTP/1.1\r\nHost: x\r\nX: "), 0);
    while (request.len < 70000) {
        assert_int_equal(buf_addc(&request, 'x'), 0);
    }
    (void)ask(r, buf_cstr(&request), &answer);
    assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 431 ")));
    close_room(r);
}

static void a_request_that_trickles_in_runs_out_of_time(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf answer = {0};
    assert_int_equal(ask(r, "GET / HT", &answer), 0);
    assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 408 ")));
    buf_reset(&answer);
    assert_int_equal(ask(r, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhal", &answer),
                     0);
    assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 408 ")));
    close_room(r);
}

static void an_idle_connection_is_closed_in_silence(void **state) {
    (void)state;
    expect("", "");
}

static void raw_bytes_are_sent_as_they_are(void **state) {
    (void)state;
    expect("GET /raw HTTP/1.1\r\nHost: x\r\n\r\nGET /raw HTTP/1.1\r\nHost: x\r\n\r\n",
           "HTTP/1.1 299 Mine\r\nContent-Length: 2\r\n\r\nok"
           "HTTP/1.1 299 Mine\r\nContent-Length: 2\r\n\r\nok");
}

static void an_answer_until_close_ends_the_connection(void **state) {
    (void)state;
    expect("GET /close HTTP/1.1\r\nHost: x\r\n\r\n",
           "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end");
}

static void an_answer_can_be_cut_in_the_middle_of_a_chunk(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf a = {0};
    AUTO_BUF struct buf b = {0};
    AUTO_BUF struct buf c = {0};
    assert_int_equal(ask(r, "GET /cut HTTP/1.1\r\nHost: x\r\n\r\n", &a), 0);
    assert_true(sv_ends_with(buf_sv(&a), SV("\r\n\r\nff\r\nhalf a chunk")));
    assert_int_equal(ask(r, "GET /reset HTTP/1.1\r\nHost: x\r\n\r\n", &b), ECONNRESET);
    assert_true(sv_ends_with(buf_sv(&b), SV("\r\n\r\nff\r\nhalf a chunk")));
    assert_int_equal(ask(r, "GET /short HTTP/1.1\r\nHost: x\r\n\r\n", &c), ECONNRESET);
    assert_true(sv_ends_with(buf_sv(&c), SV("\r\n\r\n123")));
    close_room(r);
}

static bool holds_one(void *arg) {
    return ((struct room *)arg)->held != NULL;
}

static bool heard_gone(void *arg) {
    return ((struct room *)arg)->gones > 0;
}

static void a_client_that_leaves_is_told_to_the_handler(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        struct room *r = open_room();
        int fd = test_connect(server_port(r->server));
        test_send(fd, SV("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_true(test_wait(r->l, holds_one, r));
        if (how == 0) {
            close(fd);
        } else if (how == 1) {
            test_reset(fd);
        } else { /* With more pipelined than is held: reading is paused, the end is seen all the
                    same. */
            static char junk[150 * 1024];
            test_send(fd, (struct sv){junk, sizeof junk});
            close(fd);
        }
        assert_true(test_wait(r->l, heard_gone, r));
        close_room(r);
    }
}

static void freeing_the_server_tells_the_handlers(void **state) {
    (void)state;
    struct room *r = open_room();
    int fd = test_connect(server_port(r->server));
    test_send(fd, SV("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_true(test_wait(r->l, holds_one, r));
    server_free(r->server);
    assert_int_equal(r->gones, 1);
    r->server = NULL;
    close(fd);
    close_room(r);
}

static void a_slow_client_is_waited_for(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf answer = {0};
    int fd = test_connect(server_port(r->server));
    test_send(fd, SV("GET /flood HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    assert_int_equal(test_read_end(fd, &answer), 0);
    assert_true(sv_ends_with(buf_sv(&answer), SV("\r\n0\r\n\r\n")));
    assert_int_equal(r->drains, 20);
    close(fd);
    close_room(r);
}

static void a_connection_can_be_taken_with_what_came_early(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf answer = {0};
    assert_int_equal(ask(r,
                         "GET /take HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\n"
                         "Upgrade: y\r\n\r\nearly bytes",
                         &answer),
                     0);
    assert_string_equal(buf_cstr(&answer), "HTTP/1.1 101 Switching Protocols\r\n\r\nmine now");
    assert_string_equal(buf_cstr(&r->early), "early bytes");
    close_room(r);
}

static void an_error_is_answered_in_its_own_status(void **state) {
    (void)state;
    expect("GET /err HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
           "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 91\r\n"
           "Connection: close\r\n\r\n{\"error\":{\"message\":\"no \\\"such\\\" thing\",\"type\":"
           "\"invalid_request_error\",\"code\":\"NOT_FOUND\"}}");
}

/* --- many at once --- */

static size_t never_wants_a_body(struct exchange *x, void *arg) {
    (void)x;
    (void)arg;
    return 0;
}

static struct room *open_narrow_room(unsigned clients_max, size_t held_max) {
    struct room *r = calloc(1, sizeof *r);
    struct err err = {0};
    assert_non_null(r);
    r->l = test_loop();
    struct server_options o = {
        .clients_max = clients_max, .held_max = held_max, .on_request = on_request, .arg = r};
    assert_ok(server_new(r->l, &o, &r->server, &err), &err);
    return r;
}

#define GET_LAST "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

static void the_oldest_that_asks_nothing_makes_room(void **state) {
    (void)state;
    static const char *const idle[] = {"", "GET / HT"};
    for (size_t i = 0; i < 2; i++) {
        struct room *r = open_narrow_room(3, 0);
        AUTO_BUF struct buf answer = {0};
        AUTO_BUF struct buf end = {0};
        int fds[3];
        for (int k = 0; k < 3; k++) {
            fds[k] = test_connect(server_port(r->server));
            test_send(fds[k], SV("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
            test_read_until(fds[k], &answer, "GET / []");
            buf_reset(&answer);
            test_send(fds[k], sv_from(idle[i]));
        }
        assert_int_equal(ask(r, GET_LAST, &answer), 0);
        assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 200 ")));
        assert_int_equal(test_read_end(fds[0], &end), 0);
        assert_true(i ? sv_starts_with(buf_sv(&end), SV("HTTP/1.1 408 ")) : end.len == 0);
        for (int k = 0; k < 3; k++) {
            close(fds[k]);
        }
        close_room(r);
    }
}

static void when_all_are_busy_a_new_connection_is_told_so(void **state) {
    (void)state;
    struct room *r = open_narrow_room(1, 0);
    AUTO_BUF struct buf answer = {0};
    int fd = test_connect(server_port(r->server));
    test_send(fd, SV("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_true(test_wait(r->l, holds_one, r));
    assert_int_equal(ask(r, GET_LAST, &answer), 0);
    assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 503 ")));
    close(fd);
    assert_true(test_wait(r->l, heard_gone, r));
    close_room(r);
}

static void bodies_together_are_bounded_and_given_back(void **state) {
    (void)state;
    struct room *r = open_narrow_room(0, 1000);
    AUTO_BUF struct buf answer = {0};
    AUTO_BUF struct buf request = {0};
    char filling[600];
    memset(filling, 'x', sizeof filling);
    assert_int_equal(buf_adds(&request, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                        "Content-Length: 600\r\n\r\n"),
                     0);
    int fd = test_connect(server_port(r->server));
    test_send(fd, buf_sv(&request));
    test_send(fd, (struct sv){filling, 599});
    assert_int_equal(buf_add(&request, filling, 600), 0);
    do { /* Until the first one's bytes are there. */
        buf_reset(&answer);
        assert_int_equal(ask(r, buf_cstr(&request), &answer), 0);
    } while (sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 200 ")));
    assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 503 ")));
    test_send(fd, SV("x"));
    assert_int_equal(test_read_end(fd, &answer), 0);
    close(fd);
    for (int i = 0; i < 3; i++) { /* Nothing is left of those before. */
        buf_reset(&answer);
        assert_int_equal(ask(r, buf_cstr(&request), &answer), 0);
        assert_true(sv_starts_with(buf_sv(&answer), SV("HTTP/1.1 200 ")));
    }
    close_room(r);
}

static void a_body_that_is_not_wanted_is_not_waited_for(void **state) {
    (void)state;
    struct room *r = calloc(1, sizeof *r);
    struct err err = {0};
    AUTO_BUF struct buf answer = {0};
    assert_non_null(r);
    r->l = test_loop();
    struct server_options o = {
        .body_max_of = never_wants_a_body, .on_request = on_request, .arg = r};
    assert_ok(server_new(r->l, &o, &r->server, &err), &err);
    assert_int_equal(ask(r,
                         "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
                         "POST /2 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                         "Content-Length: 9000\r\n\r\n",
                         &answer),
                     0);
    assert_string_equal(buf_cstr(&answer),
                        OK("9", "GET /1 []") "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                             "Content-Length: 10\r\nConnection: close\r\n\r\n"
                                             "POST /2 []");
    close_room(r);
}

static size_t five_bytes_of_one(struct exchange *x, void *arg) {
    (void)arg;
    return sv_eq(exchange_path(x), SV("/five")) ? 5 : SIZE_MAX;
}

static void a_path_s_bodies_have_their_own_limit(void **state) {
    static const struct {
        const char *request;
        const char *status;
    } asked[] = {
        {"POST /five HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde", "200"},
        /* Refused before it comes, and nobody is told to send it. */
        {"POST /five HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 6\r\n\r\n",
         "413"},
        {"POST /five HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
         "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
         "413"},
        {"POST /ten HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 6\r\n\r\nabcdef",
         "200"},
        {"POST /ten HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", "413"},
    };
    (void)state;
    struct room *r = calloc(1, sizeof *r);
    struct err err = {0};
    assert_non_null(r);
    r->l = test_loop();
    struct server_options o = {.body_max = 10,
                               .body_max_of = five_bytes_of_one,
                               .idle_ms = 100,
                               .on_request = on_request,
                               .arg = r};
    assert_ok(server_new(r->l, &o, &r->server, &err), &err);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        AUTO_BUF struct buf answer = {0};
        assert_int_equal(ask(r, asked[i].request, &answer), 0);
        assert_true(answer.len > 12);
        assert_memory_equal(answer.data + 9, asked[i].status, 3);
    }
    close_room(r);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_oldest_that_asks_nothing_makes_room),
    cmocka_unit_test(when_all_are_busy_a_new_connection_is_told_so),
    cmocka_unit_test(bodies_together_are_bounded_and_given_back),
    cmocka_unit_test(a_body_that_is_not_wanted_is_not_waited_for),
    cmocka_unit_test(a_path_s_bodies_have_their_own_limit),
    cmocka_unit_test(a_request_is_answered_and_the_connection_kept),
    cmocka_unit_test(pipelined_requests_are_answered_in_order),
    cmocka_unit_test(a_chunked_request_and_http_1_0_are_served),
    cmocka_unit_test(a_head_request_gets_no_body),
    cmocka_unit_test(an_expectation_is_answered_with_100),
    cmocka_unit_test(refusals_are_told_and_end_the_connection),
    cmocka_unit_test(a_chunked_body_over_the_limit_is_refused),
    cmocka_unit_test(a_bomb_of_fields_is_refused),
    cmocka_unit_test(a_request_that_trickles_in_runs_out_of_time),
    cmocka_unit_test(an_idle_connection_is_closed_in_silence),
    cmocka_unit_test(raw_bytes_are_sent_as_they_are),
    cmocka_unit_test(an_answer_until_close_ends_the_connection),
    cmocka_unit_test(an_answer_can_be_cut_in_the_middle_of_a_chunk),
    cmocka_unit_test(a_client_that_leaves_is_told_to_the_handler),
    cmocka_unit_test(freeing_the_server_tells_the_handlers),
    cmocka_unit_test(a_slow_client_is_waited_for),
    cmocka_unit_test(a_connection_can_be_taken_with_what_came_early),
    cmocka_unit_test(an_error_is_answered_in_its_own_status),
};

RUN_TESTS(tests)
