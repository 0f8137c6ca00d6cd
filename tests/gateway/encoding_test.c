/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoded bodies in both directions. */
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "fixture.h"

#define REQUEST "{\"model\":\"m\",\"messages\":[]}"
#define STREAM_REQUEST "{\"model\":\"m\",\"stream\":true,\"messages\":[]}"

/* gzip, flushed behind each piece as servers do behind each event. */
static void gzip(const char *const *pieces, struct buf *out) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    for (; *pieces; pieces++) {
        size_t n = strlen(*pieces);
        assert_int_equal(buf_reserve(out, n + 256), 0);
        z.next_in = (Bytef *)(uintptr_t)*pieces;
        z.avail_in = (uInt)n;
        z.next_out = (Bytef *)out->data + out->len;
        z.avail_out = (uInt)(n + 256);
        int rc = deflate(&z, pieces[1] ? Z_SYNC_FLUSH : Z_FINISH);
        assert_int_equal(rc, pieces[1] ? Z_OK : Z_STREAM_END);
        out->len = (size_t)((char *)z.next_out - out->data);
    }
    deflateEnd(&z);
}

static void zstd(struct sv plain, struct buf *out) {
    size_t most = ZSTD_compressBound(plain.n);
    assert_int_equal(buf_reserve(out, most), 0);
    out->len = ZSTD_compress(out->data, most, plain.p, plain.n, 3);
    assert_false(ZSTD_isError(out->len));
}

/* What the engine does, and what it saw. */
struct script {
    const char *type;
    const struct buf *body; /* gzip. */
    size_t step;
    int status; /* Of the first answer; 0: 200. */
    struct buf seen_head, seen_body;
};

static void put_head(struct buf *b, int status, const char *type) {
    assert_int_equal(buf_addf(b,
                              "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Encoding: gzip\r\n"
                              "Transfer-Encoding: chunked\r\n\r\n",
                              status, type),
                     0);
}

static void answer(struct engine_request *r, void *arg) {
    struct script *s = arg;
    AUTO_BUF struct buf head = {0};
    buf_reset(&s->seen_head);
    buf_reset(&s->seen_body);
    assert_int_equal(buf_add_sv(&s->seen_head, r->head), 0);
    assert_int_equal(buf_add_sv(&s->seen_body, r->body), 0);
    if (s->status && r->number > 1) {
        engine_json(r, 200, "{\"choices\":[]}");
        return;
    }
    put_head(&head, s->status ? s->status : 200, s->type);
    engine_write(r, buf_sv(&head));
    struct sv left = buf_sv(s->body);
    while (left.n > 0) {
        struct sv piece = {left.p, left.n < s->step ? left.n : s->step};
        if (!engine_chunk(r, piece)) {
            return;
        }
        left = sv_cut(left, piece.n);
    }
    engine_puts(r, "0\r\n\r\n");
}

static void script_deinit(struct script *s) {
    buf_deinit(&s->seen_head);
    buf_deinit(&s->seen_body);
}

static void answer_plain(struct engine_request *r, void *arg) {
    struct script *s = arg;
    assert_int_equal(buf_add_sv(&s->seen_head, r->head), 0);
    assert_int_equal(buf_add_sv(&s->seen_body, r->body), 0);
    engine_json(r, 200, "{\"choices\":[]}");
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

static struct answer post(struct fixture *f, const char *coding, struct sv body) {
    AUTO_BUF struct buf b = {0};
    struct agent a = agent_connect_unix(f->unix_path);
    assert_int_equal(buf_addf(&b,
                              "POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\n"
                              "Content-Encoding: %s\r\nContent-Length: %zu\r\n\r\n",
                              coding, body.n),
                     0);
    assert_int_equal(buf_add_sv(&b, body), 0);
    agent_send(&a, buf_sv(&b));
    struct answer r = agent_read(&a);
    agent_close(&a);
    return r;
}

static void an_encoded_request_is_edited_and_goes_out_plain(void **state) {
    AUTO_BUF struct buf body = {0};
    struct fixture f;
    struct script s = {0};
    (void)state;
    zstd(SV(REQUEST), &body);
    fixture_open(&f, answer_plain, &s, NULL);
    struct answer a = post(&f, "zstd", buf_sv(&body));
    assert_int_equal(a.status, 200);
    assert_bytes(&s.seen_body, SV("{\"model\":\"m\",\"messages\":[],\"logprobs\":true,"
                                  "\"top_logprobs\":5,\"return_token_ids\":true}"));
    assert_null(strcasestr(buf_cstr(&s.seen_head), "content-encoding"));
    struct recorded r = fixture_read(&f, 1);
    assert_bytes(&r.agent_body, SV(REQUEST));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
    script_deinit(&s);
}

static void an_encoded_request_without_edits_goes_out_as_it_came(void **state) {
    AUTO_BUF struct buf inner = {0};
    AUTO_BUF struct buf body = {0};
    struct fixture f;
    struct script s = {0};
    (void)state;
    gzip((const char *const[]){REQUEST, NULL}, &inner);
    zstd(buf_sv(&inner), &body);
    fixture_open(&f, answer_plain, &s, without_edits);
    struct answer a = post(&f, "gzip, zstd", buf_sv(&body));
    assert_int_equal(a.status, 200);
    assert_bytes(&s.seen_body, buf_sv(&body));
    assert_non_null(strstr(buf_cstr(&s.seen_head), "Content-Encoding: gzip, zstd\r\n"));
    struct recorded r = fixture_read(&f, 1);
    assert_bytes(&r.agent_body, SV(REQUEST));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
    script_deinit(&s);
}

static void a_request_in_an_unknown_or_broken_coding_is_the_engine_s_to_judge(void **state) {
    static const char *const codings[] = {"compress", "gzip"};
    (void)state;
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++) {
        struct fixture f;
        struct script s = {0};
        fixture_open(&f, answer_plain, &s, NULL);
        struct answer a = post(&f, codings[i], SV("no such thing"));
        assert_int_equal(a.status, 200);
        assert_bytes(&s.seen_body, SV("no such thing"));
        answer_deinit(&a);
        fixture_close(&f);
        script_deinit(&s);
    }
}

static void a_request_that_grows_beyond_all_bounds_is_refused(void **state) {
    AUTO_BUF struct buf zeros = {0};
    AUTO_BUF struct buf bomb = {0};
    struct fixture f;
    struct script s = {0};
    (void)state;
    assert_int_equal(buf_reserve(&zeros, 65u << 20), 0);
    memset(zeros.data, ' ', 65u << 20);
    zeros.len = 65u << 20;
    zstd(buf_sv(&zeros), &bomb);
    fixture_open(&f, answer_plain, &s, NULL);
    struct answer a = post(&f, "zstd", buf_sv(&bomb));
    assert_int_equal(a.status, 413);
    assert_int_equal(engine_requests(f.engine), 0);
    answer_deinit(&a);
    fixture_close(&f);
    script_deinit(&s);
}

#define UNARY(ids)                                                                                 \
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\","       \
    "\"token_ids\":" ids "}]}"

static void an_encoded_answer_is_put_right_and_comes_plain(void **state) {
    AUTO_BUF struct buf body = {0};
    struct fixture f;
    (void)state;
    gzip((const char *const[]){UNARY("[7]"), NULL}, &body);
    struct script s = {.type = "application/json", .body = &body, .step = 1};
    fixture_open(&f, answer, &s, NULL);
    struct answer a = fixture_call(&f, REQUEST);
    assert_bytes(&a.body, SV(UNARY("null")));
    assert_null(strcasestr(buf_cstr(&a.head), "content-encoding"));
    struct recorded r = fixture_read(&f, 1);
    assert_bytes(&r.ids, SV("[7]"));
    assert_false(lists(r.result, "findings", "encoded_answer"));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
    script_deinit(&s);
}

static void without_edits_an_encoded_answer_passes_and_a_copy_is_read(void **state) {
    AUTO_BUF struct buf body = {0};
    struct fixture f;
    (void)state;
    gzip((const char *const[]){UNARY("[7]"), NULL}, &body);
    struct script s = {.type = "application/json", .body = &body, .step = 5};
    fixture_open(&f, answer, &s, without_edits);
    struct answer a = fixture_call(&f, REQUEST);
    assert_true(a.has_end);
    assert_bytes(&a.body, buf_sv(&body));
    assert_non_null(strstr(buf_cstr(&a.head), "Content-Encoding: gzip\r\n"));
    struct recorded r = fixture_read(&f, 1);
    assert_bytes(&r.ids, SV("[7]"));
    assert_bytes(&r.response, SV(UNARY("null")));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
    script_deinit(&s);
}

#define EVENT(text, ids)                                                                           \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"},\"token_ids\":" ids     \
    "}]}\n\n"
#define LAST "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
#define DONE "data: [DONE]\n\n"

static const char *const events[] = {EVENT("a", "[1]"), EVENT("\xc3\xa9", "[2]"), LAST, DONE, NULL};

static void an_encoded_stream_comes_plain_with_edits_and_as_it_is_without(void **state) {
    AUTO_BUF struct buf body = {0};
    (void)state;
    gzip(events, &body);
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        struct script s = {.type = "text/event-stream", .body = &body, .step = i / 2 ? 1 : 10000};
        fixture_open(&f, answer, &s, i % 2 ? without_edits : NULL);
        struct answer a = fixture_call(&f, STREAM_REQUEST);
        assert_true(a.has_end);
        if (i % 2) {
            assert_bytes(&a.body, buf_sv(&body));
        } else {
            assert_bytes(&a.body, SV(EVENT("a", "null") EVENT("\xc3\xa9", "null") LAST DONE));
        }
        struct recorded r = fixture_read(&f, 1);
        assert_bytes(&r.ids, SV("[1,2]"));
        assert_string_equal(text_of(r.result, "end"), "complete");
        assert_false(lists(r.result, "findings", "encoded_answer"));
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
        script_deinit(&s);
    }
}

static void what_cannot_be_decoded_is_no_clean_end_with_edits_and_passes_without(void **state) {
    AUTO_BUF struct buf body = {0};
    (void)state;
    gzip(events, &body);
    body.data[30] ^= 0x55;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        struct script s = {.type = "text/event-stream", .body = &body, .step = 25};
        fixture_open(&f, answer, &s, i ? without_edits : NULL);
        struct answer a = fixture_call(&f, STREAM_REQUEST);
        struct recorded r = fixture_read(&f, 1);
        if (i) {
            assert_true(a.has_end);
            assert_bytes(&a.body, buf_sv(&body));
            assert_true(lists(r.result, "findings", "encoded_answer"));
        } else {
            assert_false(a.has_end);
            assert_non_null(strstr(buf_cstr(&a.body), "no valid gzip"));
            assert_string_equal(text_of(r.result, "end"), "upstream_abort");
        }
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
        script_deinit(&s);
    }
}

static void an_encoded_refusal_is_understood(void **state) {
    AUTO_BUF struct buf body = {0};
    struct fixture f;
    (void)state;
    gzip((const char *const[]){"{\"error\":\"return_token_ids: extra\"}", NULL}, &body);
    struct script s = {.type = "application/json", .body = &body, .step = 1000, .status = 400};
    fixture_open(&f, answer, &s, NULL);
    struct answer a = fixture_call(&f, REQUEST);
    assert_int_equal(a.status, 200);
    assert_bytes(&s.seen_body,
                 SV("{\"model\":\"m\",\"messages\":[],\"logprobs\":true,\"top_logprobs\":5}"));
    answer_deinit(&a);
    fixture_close(&f);
    script_deinit(&s);
}

static void with_a_long_key(struct gateway_session_options *o) {
    o->edits = false;
    o->api_key = "sk-0123456789abcdef";
}

static void the_key_is_covered_in_an_encoded_error_too(void **state) {
    AUTO_BUF struct buf body = {0};
    struct fixture f;
    (void)state;
    gzip((const char *const[]){"{\"error\":\"no key 'sk-0123456789abcdef'\"}", NULL}, &body);
    struct script s = {.type = "application/json", .body = &body, .step = 3, .status = 401};
    fixture_open(&f, answer, &s, with_a_long_key);
    struct answer a = fixture_call(&f, REQUEST);
    assert_int_equal(a.status, 401);
    assert_bytes(&a.body, SV("{\"error\":\"no key '*******************'\"}"));
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "upstream_error"), buf_cstr(&a.body));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
    script_deinit(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encoded_request_is_edited_and_goes_out_plain),
        cmocka_unit_test(an_encoded_request_without_edits_goes_out_as_it_came),
        cmocka_unit_test(a_request_in_an_unknown_or_broken_coding_is_the_engine_s_to_judge),
        cmocka_unit_test(a_request_that_grows_beyond_all_bounds_is_refused),
        cmocka_unit_test(an_encoded_answer_is_put_right_and_comes_plain),
        cmocka_unit_test(without_edits_an_encoded_answer_passes_and_a_copy_is_read),
        cmocka_unit_test(an_encoded_stream_comes_plain_with_edits_and_as_it_is_without),
        cmocka_unit_test(what_cannot_be_decoded_is_no_clean_end_with_edits_and_passes_without),
        cmocka_unit_test(an_encoded_refusal_is_understood),
        cmocka_unit_test(the_key_is_covered_in_an_encoded_error_too),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
