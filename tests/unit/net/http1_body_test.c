/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http1.h"

#include "tests/testing.h"

static void start(struct http1_body *b, const char *head, bool is_answer_to_head) {
    bool is_answer = strncmp(head, "HTTP", 4) == 0;
    struct http1_head_parser p = {.kind = is_answer ? HTTP1_RESPONSE : HTTP1_REQUEST};
    struct http1_head h;
    struct err err = {0};
    size_t used = 0;
    if (http1_head_feed(&p, sv_from(head), &used, &h, &err) != 1) {
        fail_msg("'%s': %s", head, err.msg);
    }
    if (is_answer) {
        http1_body_of_response(b, &h, is_answer_to_head);
    } else {
        http1_body_of_request(b, &h);
    }
}

/* Runs `raw` through in pieces cut at `cut` (and by one byte after, if `step`); gives the raw bytes
 * that belonged to the message. */
static int decode(struct http1_body *b, struct sv raw, size_t step, struct buf *payload,
                  size_t *taken, struct err *err) {
    int r = HTTP1_MORE;
    *taken = 0;
    while (r == HTTP1_MORE && *taken < raw.n) {
        size_t n = raw.n - *taken < step ? raw.n - *taken : step;
        struct sv in = {raw.p + *taken, n};
        struct sv span;
        size_t used = 0;
        while ((r = http1_body_next(b, in, &used, &span, err)) == HTTP1_DATA) {
            assert_ptr_equal(span.p + span.n, in.p + used); /* In place. */
            assert_int_equal(buf_add_sv(payload, span), 0);
            in = sv_cut(in, used);
            *taken += used;
        }
        *taken += used;
    }
    return r;
}

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static void chunks_with_extensions_and_trailers_cut_at_any_byte_read_the_same(void **state) {
    (void)state;
    static const char raw[] = "5;ext=\"v\"\r\nhello\r\n1 ; a\r\n,\r\n00006\r\n world\r\n"
                              "0;last\r\nX-Sum: 1\r\nY: 2\r\n\r\nHTTP/1.1 200";
    for (size_t step = 1; step <= sizeof raw; step++) {
        struct http1_body b;
        struct err err = {0};
        AUTO_BUF struct buf payload = {0};
        size_t taken = 0;
        start(&b, CHUNKED, false);
        assert_int_equal(decode(&b, sv_from(raw), step, &payload, &taken, &err), HTTP1_END);
        assert_string_equal(buf_cstr(&payload), "hello, world");
        assert_string_equal(raw + taken, "HTTP/1.1 200");
        assert_true(b.done);
        assert_int_equal(b.payload_bytes, 12);
    }
}

static void chunks_that_lie_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "5\r\nhelloX\r\n",
        "5\r\nhello\n",
        "\r\n",
        "g\r\n",
        "0x5\r\n",
        "+5\r\n",
        "-5\r\n",
        " 5\r\n",
        "5 \r\n",
        "5\n",
        "5\rX",
        "5;a\x01\r\n",
        "5;a\rb\r\n",
        "1000000000000000\r\n",
        "0\r\nX\x01: 1\r\n",
        "0\r\n\rX",
        "0\r\nX: 1\n",
        "5;a\nhello\r\n",
        "5\r\nhello\r5\r\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (size_t step = 1; step < 30; step += 28) {
            struct http1_body b;
            struct err err = {0};
            AUTO_BUF struct buf payload = {0};
            size_t taken = 0;
            start(&b, CHUNKED, false);
            if (decode(&b, sv_from(bad[i]), step, &payload, &taken, &err) != ERR_PROTOCOL) {
                fail_msg("'%s' is accepted", bad[i]);
            }
        }
    }
}

static void chunk_lines_and_trailers_have_limits(void **state) {
    (void)state;
    for (int trailer = 0; trailer < 2; trailer++) {
        AUTO_BUF struct buf raw = {0};
        AUTO_BUF struct buf payload = {0};
        struct http1_body b;
        struct err err = {0};
        size_t taken = 0;
        assert_int_equal(buf_adds(&raw, trailer ? "0\r\nX: " : "5;"), 0);
        for (unsigned i = 0; i < HTTP1_TRAILER_MAX; i++) {
            assert_int_equal(buf_addc(&raw, 'x'), 0);
        }
        start(&b, CHUNKED, false);
        assert_err(decode(&b, buf_sv(&raw), 100, &payload, &taken, &err), ERR_LIMIT, &err,
                   trailer ? "trailer" : "chunk size line");
    }
}

static void a_length_ends_the_body_and_what_follows_is_the_next_message(void **state) {
    (void)state;
    for (size_t step = 1; step < 12; step++) {
        struct http1_body b;
        struct err err = {0};
        AUTO_BUF struct buf payload = {0};
        size_t taken = 0;
        start(&b, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", false);
        assert_int_equal(decode(&b, SV("helloGET /"), step, &payload, &taken, &err), HTTP1_END);
        assert_string_equal(buf_cstr(&payload), "hello");
        assert_int_equal(taken, 5);
    }
}

static void some_answers_never_have_a_body(void **state) {
    (void)state;
    static const char *const none[] = {
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    };
    struct http1_body b;
    struct sv span;
    size_t used = 1;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        start(&b, none[i], false);
        assert_int_equal(http1_body_next(&b, SV("next"), &used, &span, NULL), HTTP1_END);
        assert_int_equal(used, 0);
        assert_int_equal(http1_body_eof(&b, true, NULL), 0);
    }
    start(&b, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true);
    assert_int_equal(http1_body_next(&b, SV("next"), &used, &span, NULL), HTTP1_END);
    start(&b, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", false);
    assert_int_equal(http1_body_next(&b, SV("next"), &used, &span, NULL), HTTP1_END);
}

static void a_body_without_length_ends_with_the_stream_but_not_with_a_truncated_one(void **state) {
    (void)state;
    struct http1_body b;
    struct err err = {0};
    struct sv span;
    size_t used = 0;
    start(&b, "HTTP/1.1 200 OK\r\n\r\n", false);
    assert_int_equal(http1_body_next(&b, SV("all"), &used, &span, &err), HTTP1_DATA);
    assert_int_equal(used, 3);
    assert_err(http1_body_eof(&b, true, &err), ERR_CLOSED, &err, "cut off after 3 bytes");
    assert_int_equal(http1_body_eof(&b, false, &err), 0);
}

static void an_early_end_inside_a_framed_body_is_an_abort(void **state) {
    (void)state;
    struct http1_body b;
    struct err err = {0};
    AUTO_BUF struct buf payload = {0};
    size_t taken = 0;
    static const char *const parts[] = {"5\r\nhel", "5\r\nhello\r\n", "0\r\n", "0\r\nX: 1\r\n", ""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        start(&b, CHUNKED, false);
        assert_int_equal(decode(&b, sv_from(parts[i]), 99, &payload, &taken, &err), HTTP1_MORE);
        assert_int_equal(http1_body_eof(&b, false, &err), ERR_CLOSED);
    }
    start(&b, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false);
    assert_int_equal(decode(&b, SV("hell"), 99, &payload, &taken, &err), HTTP1_MORE);
    assert_int_equal(http1_body_eof(&b, false, &err), ERR_CLOSED);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(chunks_with_extensions_and_trailers_cut_at_any_byte_read_the_same),
    cmocka_unit_test(chunks_that_lie_are_refused),
    cmocka_unit_test(chunk_lines_and_trailers_have_limits),
    cmocka_unit_test(a_length_ends_the_body_and_what_follows_is_the_next_message),
    cmocka_unit_test(some_answers_never_have_a_body),
    cmocka_unit_test(a_body_without_length_ends_with_the_stream_but_not_with_a_truncated_one),
    cmocka_unit_test(an_early_end_inside_a_framed_body_is_an_abort),
};

RUN_TESTS(tests)
