/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http1.h"

#include "tests/testing.h"

static const char post[] = "POST /v1/chat/completions?x=1 HTTP/1.1\r\n"
                           "Host: 127.0.0.1:7000\r\n"
                           "X-Dup: one\r\n"
                           "content-LENGTH:  13 \t\r\n"
                           "X-Dup: two  inner\r\n"
                           "X-Empty:\r\n"
                           "Expect: 100-continue\r\n"
                           "\r\n";

static void check_post(const struct http1_head *h) {
    assert_true(sv_eq(h->method, SV("POST")));
    assert_true(sv_eq(h->target, SV("/v1/chat/completions?x=1")));
    assert_int_equal(h->minor, 1);
    assert_int_equal(h->n_fields, 6);
    assert_true(h->has_length);
    assert_int_equal(h->content_length, 13);
    assert_true(h->expect_continue);
    assert_false(h->chunked);
    assert_true(sv_eq(http1_name(h, 2), SV("content-LENGTH")));
    assert_true(sv_eq(http1_value(h, 2), SV("13")));
    assert_true(sv_eq(http1_line(h, 2), SV("content-LENGTH:  13 \t\r\n")));
    assert_true(sv_eq(http1_value(h, 3), SV("two  inner")));
    assert_int_equal(http1_value(h, 4).n, 0);
    assert_true(sv_eq(h->raw, sv_from(post)));
}

static void a_whole_head_is_read_in_place(void **state) {
    (void)state;
    struct http1_head_parser p = {.kind = HTTP1_REQUEST};
    struct http1_head h;
    struct err err = {0};
    AUTO_BUF struct buf in = {0};
    size_t used = 0;
    assert_int_equal(buf_addf(&in, "%sbody", post), 0);
    assert_int_equal(http1_head_feed(&p, buf_sv(&in), &used, &h, &err), 1);
    assert_int_equal(used, sizeof post - 1);
    assert_ptr_equal(h.raw.p, in.data);
    check_post(&h);
    http1_head_parser_deinit(&p);
}

static void a_head_cut_at_any_byte_reads_the_same(void **state) {
    (void)state;
    for (size_t cut = 1; cut < sizeof post - 1; cut++) {
        struct http1_head_parser p = {.kind = HTTP1_REQUEST};
        struct http1_head h;
        struct err err = {0};
        size_t used = 0;
        struct sv all = sv_from(post);
        assert_int_equal(http1_head_feed(&p, (struct sv){all.p, cut}, &used, &h, &err), 0);
        assert_int_equal(used, cut);
        assert_int_equal(http1_head_feed(&p, sv_cut(all, cut), &used, &h, &err), 1);
        assert_int_equal(used, all.n - cut);
        check_post(&h);
        http1_head_parser_deinit(&p);
    }
}

static void a_head_byte_by_byte_leaves_what_follows_it(void **state) {
    (void)state;
    struct http1_head_parser p = {.kind = HTTP1_REQUEST};
    struct http1_head h;
    struct err err = {0};
    size_t used = 0;
    for (size_t i = 0; i + 1 < sizeof post - 1; i++) {
        assert_int_equal(http1_head_feed(&p, (struct sv){post + i, 1}, &used, &h, &err), 0);
    }
    assert_true(http1_head_started(&p));
    assert_int_equal(http1_head_feed(&p, SV("\nNEXT"), &used, &h, &err), 1);
    assert_int_equal(used, 1);
    check_post(&h);
    http1_head_parser_deinit(&p);
}

static void one_parser_reads_head_after_head(void **state) {
    (void)state;
    struct http1_head_parser p = {.kind = HTTP1_REQUEST};
    struct http1_head h;
    struct err err = {0};
    for (int i = 0; i < 3; i++) {
        size_t used = 0;
        struct sv all = sv_from(post);
        size_t cut = i == 1 ? 0 : 20;
        if (cut) {
            assert_int_equal(http1_head_feed(&p, (struct sv){all.p, cut}, &used, &h, &err), 0);
            assert_true(http1_head_started(&p));
        }
        assert_int_equal(http1_head_feed(&p, sv_cut(all, cut), &used, &h, &err), 1);
        check_post(&h);
        assert_false(http1_head_started(&p));
    }
    http1_head_parser_deinit(&p);
}

static void a_head_moves_with_a_copy_of_its_bytes(void **state) {
    (void)state;
    struct http1_head_parser p = {.kind = HTTP1_REQUEST};
    struct http1_head h;
    struct err err = {0};
    size_t used = 0;
    char *first = strdup(post);
    assert_int_equal(http1_head_feed(&p, sv_from(first), &used, &h, &err), 1);
    http1_head_rebase(&h, post);
    free(first);
    check_post(&h);
    assert_ptr_equal(h.method.p, post);
}

struct refusal {
    const char *bytes;
    int status;
    const char *words;
};

#define HOST "Host: a\r\n"
#define POST "POST / HTTP/1.1\r\n" HOST

static const struct refusal refusals[] = {
    {POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "together"},
    {POST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400, "together"},
    {POST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400, "differ"},
    {POST "Content-Length: 5, 5\r\n\r\n", 400, "no length"},
    {POST "Content-Length: +5\r\n\r\n", 400, "no length"},
    {POST "Content-Length: -1\r\n\r\n", 400, "no length"},
    {POST "Content-Length: 0x5\r\n\r\n", 400, "no length"},
    {POST "Content-Length:\r\n\r\n", 400, "no length"},
    {POST "Content-Length: 18446744073709551617\r\n\r\n", 400, "no length"},
    {POST "Transfer-Encoding: chunked, identity\r\n\r\n", 400, "not last"},
    {POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "more after"},
    {POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, "other than"},
    {POST "Transfer-Encoding: xchunked\r\n\r\n", 501, "other than"},
    {POST "Transfer-Encoding: \"chunked\"\r\n\r\n", 501, "other than"},
    {POST "Transfer-Encoding: \vchunked\r\n\r\n", 400, "control character"},
    {POST "Transfer-Encoding:\r\n\r\n", 400, "not last"},
    {POST "Transfer-Encoding : chunked\r\n\r\n", 400, "blank before"},
    {POST "Transfer-Encoding\t: chunked\r\n\r\n", 400, "blank before"},
    {POST "X: 1\r\n Transfer-Encoding: chunked\r\n\r\n", 400, "folded"},
    {POST "X: 1\r\n\tmore\r\n\r\n", 400, "folded"},
    {POST " X: 1\r\n\r\n", 400, "folded"},
    {POST "X: a\rb\r\n\r\n", 400, "control character"},
    {POST "X: a\nY: b\r\n\r\n", 400, "without carriage return"},
    {POST "X: 1\r\n\n", 400, "without carriage return"},
    {POST "No colon\r\n\r\n", 400, "without colon"},
    {POST ": empty name\r\n\r\n", 400, "field name"},
    {POST "X(y): 1\r\n\r\n", 400, "field name"},
    {POST "X\x80: 1\r\n\r\n", 400, "field name"},
    {POST "Expect: 200-ok\r\n\r\n", 417, "Expect"},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "HTTP/1.0"},
    {"GET / HTTP/1.1\r\n\r\n", 400, "no Host"},
    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, "more than one Host"},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "no host"},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "no host"},
    {"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "no host"},
    {"GET / HTTP/2.0\r\n" HOST "\r\n", 505, "HTTP/1.1"},
    {"GET / HTTP/1.2\r\n" HOST "\r\n", 505, "HTTP/1.1"},
    {"GET / http/1.1\r\n" HOST "\r\n", 400, "version"},
    {"GET /\r\n\r\n", 400, "first line"},
    {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400, "version"},
    {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400, "version"},
    {"GET /a b HTTP/1.1\r\n" HOST "\r\n", 400, "version"},
    {"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400, "target"},
    {"GET a HTTP/1.1\r\n" HOST "\r\n", 400, "target"},
    {"GET * HTTP/1.1\r\n" HOST "\r\n", 400, "target"},
    {"GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n", 400, "target"},
    {"GET http:///a HTTP/1.1\r\n" HOST "\r\n", 400, "target"},
    {"CONNECT a:443 HTTP/1.1\r\n" HOST "\r\n", 501, "CONNECT"},
    {"\x16\x03\x01", 400, "TLS"},
    {"\r\n\r\nGET", 400, "no method"},
    {"\n", 400, "no method"},
};

/* The same words and status, whole and byte by byte. */
static void check_refusal(enum http1_kind kind, const struct refusal *r, size_t step) {
    struct http1_head_parser p = {.kind = kind};
    struct http1_head h;
    struct err err = {0};
    struct sv in = sv_from(r->bytes);
    int got = 0;
    while (got == 0 && in.n > 0) {
        size_t used = 0;
        got = http1_head_feed(&p, (struct sv){in.p, in.n < step ? in.n : step}, &used, &h, &err);
        in = sv_cut(in, used);
    }
    if (got >= 0 || p.refuse_status != r->status || !strstr(err.msg, r->words)) {
        fail_msg("'%s' (steps of %zu): want %d '%s', got %d %d '%s'", r->bytes, step, r->status,
                 r->words, got, p.refuse_status, err.msg);
    }
    size_t used = 0;
    assert_int_equal(http1_head_feed(&p, SV("x"), &used, &h, &err), ERR_STATE);
    http1_head_parser_deinit(&p);
}

static void what_two_readers_could_read_differently_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        check_refusal(HTTP1_REQUEST, &refusals[i], 1000);
        check_refusal(HTTP1_REQUEST, &refusals[i], 1);
    }
}

static void a_nul_byte_is_refused(void **state) {
    (void)state;
    static const char bytes[] = "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n";
    struct http1_head_parser p = {.kind = HTTP1_REQUEST};
    struct http1_head h;
    struct err err = {0};
    size_t used = 0;
    struct sv in = {bytes, sizeof bytes - 1};
    assert_err(http1_head_feed(&p, in, &used, &h, &err), ERR_PROTOCOL, &err, "control character");
}

static void limits_on_bytes_and_fields_hold(void **state) {
    (void)state;
    AUTO_BUF struct buf in = {0};
    struct http1_head h;
    struct err err = {0};
    size_t used = 0;
    assert_int_equal(buf_adds(&in, "GET / HTTP/1.1\r\nHost: a\r\n"), 0);
    for (int i = 0; i < 127; i++) {
        assert_int_equal(buf_addf(&in, "X-%d: v\r\n", i), 0);
    }
    size_t fit = in.len;
    assert_int_equal(buf_adds(&in, "\r\n"), 0);
    struct http1_head_parser p = {.kind = HTTP1_REQUEST};
    assert_int_equal(http1_head_feed(&p, buf_sv(&in), &used, &h, &err), 1);
    assert_int_equal(h.n_fields, 128);
    in.len = fit;
    assert_int_equal(buf_adds(&in, "One: more\r\n\r\n"), 0);
    http1_head_parser_reset(&p);
    assert_err(http1_head_feed(&p, buf_sv(&in), &used, &h, &err), ERR_LIMIT, &err, "128 fields");
    assert_int_equal(p.refuse_status, 431);

    http1_head_parser_reset(&p);
    in.len = fit;
    assert_int_equal(buf_adds(&in, "Long: "), 0);
    while (in.len < HTTP1_HEAD_MAX) {
        assert_int_equal(buf_addc(&in, 'x'), 0);
    }
    assert_err(http1_head_feed(&p, buf_sv(&in), &used, &h, &err), ERR_LIMIT, &err, "65536");
    assert_int_equal(p.refuse_status, 431);

    http1_head_parser_reset(&p);
    in.data[0] = 'A';
    memset(in.data + 4, '/', in.len - 4);
    int r = 0;
    for (struct sv v = buf_sv(&in); r == 0 && v.n > 0; v = sv_cut(v, used)) {
        r = http1_head_feed(&p, (struct sv){v.p, v.n < 4096 ? v.n : 4096}, &used, &h, &err);
    }
    assert_int_equal(r, ERR_LIMIT);
    assert_int_equal(p.refuse_status, 414);
    http1_head_parser_deinit(&p);
}

static int parse(const char *bytes, enum http1_kind kind, struct http1_head *h) {
    struct http1_head_parser p = {.kind = kind};
    struct err err = {0};
    size_t used = 0;
    int r = http1_head_feed(&p, sv_from(bytes), &used, h, &err);
    if (r <= 0) {
        fail_msg("'%s': %d %s", bytes, r, err.msg);
    }
    return (int)used;
}

static void forms_of_targets_and_versions_are_accepted(void **state) {
    (void)state;
    struct http1_head h;
    parse("GET http://a.example:80/p?q HTTP/1.1\r\nHost: b\r\n\r\n", HTTP1_REQUEST, &h);
    assert_true(sv_eq(http1_target_path(&h), SV("/p?q")));
    parse("GET https://a HTTP/1.1\r\nHost: b\r\n\r\n", HTTP1_REQUEST, &h);
    assert_true(sv_eq(http1_target_path(&h), SV("/")));
    parse("OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n", HTTP1_REQUEST, &h);
    assert_true(sv_eq(http1_target_path(&h), SV("*")));
    parse("GET / HTTP/1.0\r\n\r\n", HTTP1_REQUEST, &h);
    assert_false(http1_keep_alive(&h));
    parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", HTTP1_REQUEST, &h);
    assert_true(http1_keep_alive(&h));
    assert_int_equal(parse("\r\nGET / HTTP/1.1\r\nHost: [::1]:7\r\n\r\nX", HTTP1_REQUEST, &h), 35);
    assert_true(http1_keep_alive(&h));
    parse("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
          HTTP1_REQUEST, &h);
    assert_int_equal(h.content_length, 5);
    parse("GET / HTTP/1.1\r\nHost: b\r\nConnection: x , CLOSE\r\n\r\n", HTTP1_REQUEST, &h);
    assert_false(http1_keep_alive(&h));
}

static void an_answer_keeps_its_reason_and_needs_none(void **state) {
    (void)state;
    struct http1_head h;
    parse("HTTP/1.1 200 All  is well\r\nX: 1\r\n\r\n", HTTP1_RESPONSE, &h);
    assert_int_equal(h.status, 200);
    assert_true(sv_eq(h.reason, SV("All  is well")));
    parse("HTTP/1.1 404\r\n\r\n", HTTP1_RESPONSE, &h);
    assert_int_equal(h.status, 404);
    assert_int_equal(h.reason.n, 0);
    parse("HTTP/1.0 200 \r\n\r\n", HTTP1_RESPONSE, &h);
    assert_int_equal(h.minor, 0);
}

static void an_answer_that_is_none_is_refused(void **state) {
    (void)state;
    static const struct refusal bad[] = {
        {"SSH-2.0-x\r\n", 502, "HTTP/"},
        {"HTTP/1.1 2x0 OK\r\n\r\n", 502, "number"},
        {"HTTP/1.1 099 x\r\n\r\n", 502, "below 100"},
        {"HTTP/1.1 2000\r\n\r\n", 502, "first line"},
        {"HTTP/1.1\r\n\r\n", 502, "first line"},
        {"HTTP/3.0 200 OK\r\n\r\n", 502, "HTTP/1.1"},
        {"HTTP/1.1 200 O\x01K\r\n\r\n", 502, "reason"},
        {"HTTP/1.1 200 OK\nX: 1\r\n\r\n", 502, "carriage return"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 502, "differ"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 502,
         "together"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_refusal(HTTP1_RESPONSE, &bad[i], 1000);
        check_refusal(HTTP1_RESPONSE, &bad[i], 1);
    }
}

static void hop_by_hop_fields_are_known_also_by_connection(void **state) {
    (void)state;
    struct http1_head h;
    parse("GET / HTTP/1.1\r\nHost: b\r\nConnection: upgrade, X-Mine\r\nUpgrade: websocket\r\n"
          "x-mine: 1\r\nX-Other: 2\r\n\r\n",
          HTTP1_REQUEST, &h);
    assert_true(h.upgrade);
    assert_true(http1_is_hop_by_hop(&h, SV("X-MINE")));
    assert_true(http1_is_hop_by_hop(&h, SV("te")));
    assert_true(http1_is_hop_by_hop(&h, SV("Proxy-Authorization")));
    assert_false(http1_is_hop_by_hop(&h, SV("X-Other")));
    AUTO_BUF struct buf out = {0};
    const char *const drop[] = {"HOST", NULL};
    assert_int_equal(http1_put_end_to_end(&out, &h, drop, NULL), 0);
    assert_string_equal(buf_cstr(&out), "X-Other: 2\r\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_whole_head_is_read_in_place),
    cmocka_unit_test(a_head_cut_at_any_byte_reads_the_same),
    cmocka_unit_test(a_head_byte_by_byte_leaves_what_follows_it),
    cmocka_unit_test(one_parser_reads_head_after_head),
    cmocka_unit_test(a_head_moves_with_a_copy_of_its_bytes),
    cmocka_unit_test(what_two_readers_could_read_differently_is_refused),
    cmocka_unit_test(a_nul_byte_is_refused),
    cmocka_unit_test(limits_on_bytes_and_fields_hold),
    cmocka_unit_test(forms_of_targets_and_versions_are_accepted),
    cmocka_unit_test(an_answer_keeps_its_reason_and_needs_none),
    cmocka_unit_test(an_answer_that_is_none_is_refused),
    cmocka_unit_test(hop_by_hop_fields_are_known_also_by_connection),
};

RUN_TESTS(tests)
