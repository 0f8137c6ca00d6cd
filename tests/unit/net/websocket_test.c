/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/websocket.h"

#include "tests/unit/net/net_testing.h"
#include "tests/unit/net/websocket_testing.h"

#define NO_PING_MS 600000
#define PING_MS 800 /* A busy machine has to answer within. */

struct room {
    struct loop *l;
    struct server *server;
    struct websocket *w;
    struct buf texts;
    int64_t ping_ms;
    int gones;
    int refused;
    bool leaves; /* Closes from inside the first message. */
    struct sv reply;
    int reply_result;
};

static void on_text(struct websocket *w, struct sv text, void *arg) {
    struct room *r = arg;
    BUG_IF(buf_add_sv(&r->texts, text) < 0 || buf_addc(&r->texts, '|') < 0);
    if (r->leaves) {
        r->w = NULL;
        websocket_close(w, WEBSOCKET_NORMAL, SV("enough"));
    } else {
        r->reply_result = websocket_send(w, r->reply.n > 0 ? r->reply : text);
    }
}

static void on_gone(struct websocket *w, void *arg) {
    struct room *r = arg;
    BUG_IF(w != r->w);
    r->w = NULL;
    r->gones++;
}

static void on_request(struct exchange *x, void *arg) {
    struct room *r = arg;
    struct err err = {0};
    struct websocket_options o = {
        .ping_ms = r->ping_ms, .on_text = on_text, .on_gone = on_gone, .arg = r};
    if (websocket_accept(x, &o, &r->w, &err) < 0) {
        r->refused++;
    }
}

static struct room *open_room_that_pings(int64_t ping_ms) {
    struct room *r = calloc(1, sizeof *r);
    struct err err = {0};
    assert_non_null(r);
    r->ping_ms = ping_ms;
    r->l = test_loop();
    struct server_options o = {.on_request = on_request, .arg = r};
    assert_ok(server_new(r->l, &o, &r->server, &err), &err);
    return r;
}

static struct room *open_room(void) {
    return open_room_that_pings(NO_PING_MS);
}

static void leave(void *arg) {
    struct room *r = arg;
    if (r->w) {
        websocket_close(r->w, WEBSOCKET_GOING_AWAY, SV("the server ends"));
        r->w = NULL;
    }
}

static void close_room(struct room *r) {
    loop_call(r->l, leave, r);
    server_free(r->server);
    loop_free(r->l);
    buf_deinit(&r->texts);
    free(r);
}

#define HANDSHAKE(version, key)                                                                    \
    "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"     \
    "Sec-WebSocket-Version: " version "\r\nSec-WebSocket-Key: " key "\r\n\r\n"
#define GOOD_KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define GOOD_ANSWER                                                                                \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"            \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

static void read_more(int fd, struct buf *in) {
    char bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) {
        fail_msg("the connection ended, or nothing came: %zd", n);
    }
    assert_int_equal(buf_add(in, bytes, (size_t)n), 0);
}

/* The next frame that is not a ping: its payload is added to `out`. Gives its first byte. */
static unsigned read_frame(int fd, struct buf *in, struct buf *out) {
    unsigned first = 0;
    struct sv payload = {0};
    for (;;) {
        size_t n = ws_frame(buf_sv(in), &first, &payload);
        if (n == 0) {
            read_more(fd, in);
            continue;
        }
        bool wanted = first != (WS_FIN | WS_PING);
        if (wanted) {
            assert_int_equal(buf_add_sv(out, payload), 0);
        }
        buf_consume(in, n);
        if (wanted) {
            return first;
        }
    }
}

static int shake(struct room *r, struct sv behind) {
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf in = {0};
    int fd = test_connect(server_port(r->server));
    assert_int_equal(buf_adds(&out, HANDSHAKE("13", GOOD_KEY)), 0);
    assert_int_equal(buf_add_sv(&out, behind), 0);
    test_send(fd, buf_sv(&out));
    while (in.len < sizeof GOOD_ANSWER - 1) {
        char c;
        assert_int_equal(recv(fd, &c, 1, 0), 1);
        assert_int_equal(buf_addc(&in, c), 0);
    }
    assert_string_equal(buf_cstr(&in), GOOD_ANSWER);
    return fd;
}

static void expect_echo(int fd, struct buf *in, struct sv text) {
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf got = {0};
    ws_put(&out, WS_FIN | WS_TEXT, text);
    test_send(fd, buf_sv(&out));
    assert_int_equal(read_frame(fd, in, &got), WS_FIN | WS_TEXT);
    assert_true(sv_eq(buf_sv(&got), text));
}

static bool is_gone(void *arg) {
    return ((struct room *)arg)->gones == 1;
}

static bool has_one(void *arg) {
    return ((struct room *)arg)->w != NULL;
}

static bool has_refused_all(void *arg) {
    return ((struct room *)arg)->refused == 4;
}

static void a_handshake_opens_it_and_frames_go_both_ways(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf behind = {0};
    AUTO_BUF struct buf in = {0};
    AUTO_BUF struct buf got = {0};
    ws_put(&behind, WS_FIN | WS_TEXT, SV("came with the handshake"));
    int fd = shake(r, buf_sv(&behind));
    assert_int_equal(read_frame(fd, &in, &got), WS_FIN | WS_TEXT);
    assert_string_equal(buf_cstr(&got), "came with the handshake");
    expect_echo(fd, &in, SV("and one later, \xe2\x82\xac"));
    close(fd);
    assert_true(test_wait(r->l, is_gone, r));
    close_room(r);
}

static void what_is_no_handshake_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        HANDSHAKE("12", GOOD_KEY),
        HANDSHAKE("13", "short=="),
        HANDSHAKE("13", "dGhlIHNhbXBsZSBub25jZ!=="),
        "GET /ws HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " GOOD_KEY
        "\r\n\r\n",
    };
    struct room *r = open_room();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        AUTO_BUF struct buf in = {0};
        int fd = test_connect(server_port(r->server));
        test_send(fd, sv_from(bad[i]));
        test_read_until(fd, &in, i == 0 ? "Sec-WebSocket-Version: 13" : " 400 ");
        assert_true(sv_starts_with(buf_sv(&in), i == 0 ? SV("HTTP/1.1 426") : SV("HTTP/1.1 400")));
        close(fd);
    }
    assert_true(test_wait(r->l, has_refused_all, r));
    close_room(r);
}

static void twenty_megabytes_pass_in_both_directions(void **state) {
    (void)state;
    struct room *r = open_room();
    size_t n = 20u << 20;
    char *text = malloc(n);
    AUTO_BUF struct buf in = {0};
    assert_non_null(text);
    memset(text, 'y', n);
    int fd = shake(r, (struct sv){0});
    expect_echo(fd, &in, (struct sv){text, n});
    assert_int_equal(r->reply_result, 0);
    close(fd);
    free(text);
    close_room(r);
}

static void a_close_ends_the_connection_after_its_answer(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf in = {0};
    AUTO_BUF struct buf got = {0};
    int fd = shake(r, (struct sv){0});
    ws_put_close(&out, 1000);
    test_send(fd, buf_sv(&out));
    assert_int_equal(read_frame(fd, &in, &got), WS_FIN | WS_CLOSE);
    assert_true(sv_eq(buf_sv(&got), SV("\x03\xe8")));
    assert_int_equal(test_read_end(fd, &in), 0);
    assert_true(test_wait(r->l, is_gone, r));
    close(fd);
    close_room(r);
}

static void the_owner_may_close_from_inside_a_message(void **state) {
    (void)state;
    struct room *r = open_room();
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf in = {0};
    AUTO_BUF struct buf got = {0};
    r->leaves = true;
    ws_put(&out, WS_FIN | WS_TEXT, SV("first"));
    ws_put(&out, WS_FIN | WS_TEXT, SV("second"));
    int fd = shake(r, buf_sv(&out));
    assert_int_equal(read_frame(fd, &in, &got), WS_FIN | WS_CLOSE);
    assert_true(sv_eq(buf_sv(&got), SV("\x03\xe8"
                                       "enough")));
    buf_reset(&out);
    ws_put_close(&out, 1000);
    test_send(fd, buf_sv(&out));
    assert_int_equal(test_read_end(fd, &in), 0);
    assert_string_equal(buf_cstr(&r->texts), "first|");
    assert_int_equal(r->gones, 0);
    close(fd);
    close_room(r);
}

static void a_peer_that_answers_pings_stays_and_a_silent_one_goes(void **state) {
    (void)state;
    struct room *r = open_room_that_pings(PING_MS);
    AUTO_BUF struct buf in = {0};
    AUTO_BUF struct buf pong = {0};
    int fd = shake(r, (struct sv){0});
    unsigned first = 0;
    struct sv payload;
    ws_put(&pong, WS_FIN | WS_PONG, SV(""));
    for (int i = 0; i < 3; i++) {
        size_t n = 0;
        while ((n = ws_frame(buf_sv(&in), &first, &payload)) == 0) {
            read_more(fd, &in);
        }
        assert_int_equal(first, WS_FIN | WS_PING);
        buf_consume(&in, n);
        test_send(fd, buf_sv(&pong));
    }
    assert_int_equal(r->gones, 0);
    assert_true(test_wait(r->l, is_gone, r));
    assert_int_equal(test_read_end(fd, &in), ECONNRESET);
    close(fd);
    close_room(r);
}

static void a_peer_that_vanishes_is_told_at_once(void **state) {
    (void)state;
    struct room *r = open_room();
    int fd = shake(r, (struct sv){0});
    assert_true(test_wait(r->l, has_one, r));
    test_reset(fd);
    assert_true(test_wait(r->l, is_gone, r));
    close_room(r);
}

/* Its pings are not read on while the answers wait for it, so it can't fill the memory. */
static void a_peer_that_floods_with_pings_and_never_reads_goes(void **state) {
    (void)state;
    struct room *r = open_room_that_pings(50);
    AUTO_BUF struct buf pings = {0};
    static char payload[125];
    for (int i = 0; i < 300; i++) {
        ws_put(&pings, WS_FIN | WS_PING, (struct sv){payload, sizeof payload});
    }
    int fd = shake(r, (struct sv){0});
    for (;;) {
        ssize_t n = send(fd, pings.data, pings.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) {
            break; /* It was cut. */
        }
        if (n < 0 && test_wait(r->l, is_gone, r)) {
            break;
        }
    }
    assert_true(test_wait(r->l, is_gone, r));
    close(fd);
    close_room(r);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_handshake_opens_it_and_frames_go_both_ways),
    cmocka_unit_test(what_is_no_handshake_is_refused),
    cmocka_unit_test(twenty_megabytes_pass_in_both_directions),
    cmocka_unit_test(a_close_ends_the_connection_after_its_answer),
    cmocka_unit_test(the_owner_may_close_from_inside_a_message),
    cmocka_unit_test(a_peer_that_answers_pings_stays_and_a_silent_one_goes),
    cmocka_unit_test(a_peer_that_vanishes_is_told_at_once),
    cmocka_unit_test(a_peer_that_floods_with_pings_and_never_reads_goes),
};

RUN_TESTS(tests)
