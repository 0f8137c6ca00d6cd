/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/websocket_codec.h"

#include "tests/unit/net/websocket_testing.h"

#define MESSAGE_MAX 1000

/* What came of some bytes: texts in brackets, then what is sent: "pong:x" and "close:1002". */
struct trial {
    struct websocket_codec *c;
    struct buf texts;
    struct buf sent;
};

static void on_text(struct sv text, void *arg) {
    struct trial *t = arg;
    BUG_IF(buf_addc(&t->texts, '[') < 0 || buf_add_sv(&t->texts, text) < 0 ||
           buf_addc(&t->texts, ']') < 0);
}

static struct trial begin(void) {
    struct trial t = {0};
    return t;
}

static void open_codec(struct trial *t) {
    struct err err = {0};
    struct websocket_codec_options o = {.message_max = MESSAGE_MAX, .on_text = on_text, .arg = t};
    assert_ok(websocket_codec_new(&o, &t->c, &err), &err);
}

static void feed(struct trial *t, struct sv in, size_t step) {
    struct err err = {0};
    for (; in.n > 0; in = sv_cut(in, step)) {
        size_t n = in.n < step ? in.n : step;
        assert_ok(websocket_codec_feed(t->c, (struct sv){in.p, n}, &err), &err);
    }
}

static void read_sent(struct trial *t) {
    struct sv out = buf_sv(websocket_codec_out(t->c));
    unsigned first = 0;
    struct sv payload;
    for (size_t n; (n = ws_frame(out, &first, &payload)) > 0; out = sv_cut(out, n)) {
        int r = 0;
        if (first == (WS_FIN | WS_CLOSE)) {
            const unsigned char *p = (const unsigned char *)payload.p;
            r = buf_addf(&t->sent, "close:%d ", payload.n ? p[0] << 8 | p[1] : 0);
        } else {
            r = buf_addf(&t->sent, "%s:%.*s ", first == (WS_FIN | WS_PONG) ? "pong" : "ping",
                         SV_ARG(payload));
        }
        assert_int_equal(r, 0);
    }
    assert_int_equal(out.n, 0);
}

static void end(struct trial *t) {
    websocket_codec_free(t->c);
    buf_deinit(&t->texts);
    buf_deinit(&t->sent);
}

static void expect_by(struct sv in, size_t step, const char *texts, const char *sent, bool over) {
    struct trial t = begin();
    open_codec(&t);
    feed(&t, in, step);
    read_sent(&t);
    if (strcmp(buf_cstr(&t.texts), texts) != 0 || strcmp(buf_cstr(&t.sent), sent) != 0 ||
        websocket_codec_is_over(t.c) != over) {
        fail_msg("by %zu: want '%s' and '%s' over %d, got '%s' and '%s' over %d", step, texts, sent,
                 over, buf_cstr(&t.texts), buf_cstr(&t.sent), websocket_codec_is_over(t.c));
    }
    assert_int_equal(websocket_codec_may_send(t.c), !over);
    end(&t);
}

/* Whole, and in steps of every size: so it is cut at every byte. */
static void expect(struct buf *in, const char *texts, const char *sent, bool over) {
    for (size_t step = 1; step <= in->len; step++) {
        expect_by(buf_sv(in), step, texts, sent, over);
    }
    buf_reset(in);
}

static void a_message_comes_whole_however_it_is_cut(void **state) {
    (void)state;
    AUTO_BUF struct buf in = {0};
    ws_put(&in, WS_FIN | WS_TEXT, SV("one"));
    ws_put(&in, WS_FIN | WS_TEXT, SV(""));
    ws_put(&in, WS_FIN | WS_TEXT, SV("\xc3\xa4\xe2\x82\xac"));
    expect(&in, "[one][][\xc3\xa4\xe2\x82\xac]", "", false);
}

static void fragments_are_joined_and_a_ping_between_them_is_answered(void **state) {
    (void)state;
    AUTO_BUF struct buf in = {0};
    ws_put(&in, WS_TEXT, SV("a\xe2"));
    ws_put(&in, WS_FIN | WS_PING, SV("here?"));
    ws_put(&in, WS_MORE, SV(""));
    ws_put(&in, WS_MORE, SV("\x82"));
    ws_put(&in, WS_FIN | WS_PONG, SV("unasked"));
    ws_put(&in, WS_FIN | WS_MORE, SV("\xac"));
    expect(&in, "[a\xe2\x82\xac]", "pong:here? ", false);
}

static void a_close_is_answered_with_its_status(void **state) {
    (void)state;
    AUTO_BUF struct buf in = {0};
    ws_put(&in, WS_FIN | WS_TEXT, SV("last"));
    ws_put_close(&in, 1001);
    ws_put(&in, WS_FIN | WS_TEXT, SV("too late"));
    expect(&in, "[last]", "close:1001 ", true);
    ws_put(&in, WS_FIN | WS_CLOSE, SV(""));
    expect(&in, "", "close:0 ", true);
}

static void bad_utf8_ends_it_with_1007(void **state) {
    (void)state;
    AUTO_BUF struct buf in = {0};
    ws_put(&in, WS_FIN | WS_TEXT, SV("a\xff"));
    expect(&in, "", "close:1007 ", true);
    ws_put(&in, WS_FIN | WS_TEXT, SV("\xed\xa0\x80")); /* A surrogate. */
    expect(&in, "", "close:1007 ", true);
    ws_put(&in, WS_TEXT, SV("\xe2\x82"));
    ws_put(&in, WS_FIN | WS_MORE, SV("")); /* Cut short. */
    expect(&in, "", "close:1007 ", true);
}

static void what_breaks_the_protocol_ends_it_with_1002(void **state) {
    (void)state;
    AUTO_BUF struct buf in = {0};
    ws_put(&in, WS_FIN | WS_MORE, SV("of nothing"));
    expect(&in, "", "close:1002 ", true);
    ws_put(&in, WS_TEXT, SV("a"));
    ws_put(&in, WS_FIN | WS_TEXT, SV("a second beginning"));
    expect(&in, "", "close:1002 ", true);
    ws_put(&in, WS_PING, SV("in pieces"));
    expect(&in, "", "close:1002 ", true);
    ws_put(&in, WS_FIN | 0x40 | WS_TEXT, SV("compressed"));
    expect(&in, "", "close:1002 ", true);
    ws_put(&in, WS_FIN | 0x3, SV("no such opcode"));
    expect(&in, "", "close:1002 ", true);
    ws_put_close(&in, 1005);
    expect(&in, "", "close:1002 ", true);
    assert_int_equal(buf_add_sv(&in, SV("\x81\x01x")), 0); /* Not masked. */
    expect(&in, "", "close:1002 ", true);
}

static void a_long_message_ends_it_with_1009(void **state) {
    (void)state;
    static char text[MESSAGE_MAX + 1];
    AUTO_BUF struct buf in = {0};
    memset(text, 'x', sizeof text);
    ws_put(&in, WS_FIN | WS_TEXT, (struct sv){text, MESSAGE_MAX + 1});
    expect(&in, "", "close:1009 ", true);
    ws_put(&in, WS_TEXT, (struct sv){text, MESSAGE_MAX});
    ws_put(&in, WS_FIN | WS_MORE, SV("x"));
    expect(&in, "", "close:1009 ", true);
    /* A size that nobody has. */
    assert_int_equal(buf_add(&in,
                             "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff"
                             "mAsK"
                             "x",
                             15),
                     0);
    expect(&in, "", "close:1009 ", true);
}

static void binary_ends_it_with_1003(void **state) {
    (void)state;
    AUTO_BUF struct buf in = {0};
    ws_put(&in, WS_FIN | WS_BINARY, SV("bytes"));
    ws_put(&in, WS_FIN | WS_TEXT, SV("too late"));
    expect(&in, "", "close:1003 ", true);
}

static void our_close_waits_for_the_peer_s(void **state) {
    (void)state;
    struct trial t = begin();
    AUTO_BUF struct buf in = {0};
    open_codec(&t);
    assert_int_equal(websocket_codec_ping(t.c), 0);
    assert_int_equal(websocket_codec_close(t.c, WEBSOCKET_GOING_AWAY, SV("over")), 0);
    assert_int_equal(websocket_codec_close(t.c, WEBSOCKET_FAULT, SV("again")), 0);
    assert_int_equal(websocket_codec_ping(t.c), 0);
    assert_false(websocket_codec_may_send(t.c));
    assert_false(websocket_codec_is_over(t.c));
    ws_put(&in, WS_FIN | WS_TEXT, SV("crossed it"));
    ws_put_close(&in, 1001);
    feed(&t, buf_sv(&in), in.len);
    assert_true(websocket_codec_is_over(t.c));
    read_sent(&t);
    assert_string_equal(buf_cstr(&t.sent), "ping: close:1001 ");
    assert_string_equal(buf_cstr(&t.texts), "");
    end(&t);
}

static void a_frame_s_head_has_the_size_it_needs(void **state) {
    (void)state;
    char out[WEBSOCKET_FRAME_HEAD_MAX];
    assert_true(sv_eq(websocket_frame_head(out, 125), SV("\x81\x7d")));
    assert_true(sv_eq(websocket_frame_head(out, 126), SV("\x81\x7e\x00\x7e")));
    assert_true(sv_eq(websocket_frame_head(out, 65535), SV("\x81\x7e\xff\xff")));
    assert_true(sv_eq(websocket_frame_head(out, 65536), SV("\x81\x7f\0\0\0\0\0\x01\0\0")));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_message_comes_whole_however_it_is_cut),
    cmocka_unit_test(fragments_are_joined_and_a_ping_between_them_is_answered),
    cmocka_unit_test(a_close_is_answered_with_its_status),
    cmocka_unit_test(bad_utf8_ends_it_with_1007),
    cmocka_unit_test(what_breaks_the_protocol_ends_it_with_1002),
    cmocka_unit_test(a_long_message_ends_it_with_1009),
    cmocka_unit_test(binary_ends_it_with_1003),
    cmocka_unit_test(our_close_waits_for_the_peer_s),
    cmocka_unit_test(a_frame_s_head_has_the_size_it_needs),
};

RUN_TESTS(tests)
