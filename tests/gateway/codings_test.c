/* SPDX-License-Identifier: BSD-3-Clause */
/* gzip, deflate, br and zstd in both directions, of encoders that flush behind each event. */
#include <brotli/encode.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "fixture.h"

#define EVENT(text, ids)                                                                           \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"},\"token_ids\":" ids     \
    "}]}\n\n"
#define LAST "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
#define DONE "data: [DONE]\n\n"
#define REQUEST "{\"model\":\"m\",\"messages\":[]}"
#define STREAM "{\"model\":\"m\",\"stream\":true}"
#define UNARY(ids)                                                                                 \
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"},\"token_ids\":" ids "}]}"

static const char *const codings[] = {"gzip", "deflate", "br", "zstd"};
static const char *const events[] = {EVENT("a", "[1]"), EVENT("\xf0\x9f\x98\x80", "[2]"),
                                     LAST DONE};
static const char *const plain[] = {EVENT("a", "null"), EVENT("\xf0\x9f\x98\x80", "null"),
                                    LAST DONE};

/* An encoder; each piece comes out whole. */
struct encoder {
    const char *coding;
    z_stream z;
    BrotliEncoderState *br;
    ZSTD_CStream *zstd;
};

static void encoder_open(struct encoder *e, const char *coding) {
    *e = (struct encoder){.coding = coding};
    if (strcmp(coding, "br") == 0) {
        e->br = BrotliEncoderCreateInstance(NULL, NULL, NULL);
        assert_non_null(e->br);
    } else if (strcmp(coding, "zstd") == 0) {
        e->zstd = ZSTD_createCStream();
        assert_non_null(e->zstd);
    } else {
        int bits = strcmp(coding, "gzip") == 0 ? 31 : 15;
        assert_int_equal(deflateInit2(&e->z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    }
}

static void encoder_close(struct encoder *e) {
    if (e->br) {
        BrotliEncoderDestroyInstance(e->br);
    } else if (e->zstd) {
        ZSTD_freeCStream(e->zstd);
    } else {
        deflateEnd(&e->z);
    }
}

static void encode(struct encoder *e, const char *piece, bool is_last, struct buf *out) {
    size_t n = strlen(piece);
    size_t room = n + 1024;
    assert_int_equal(buf_reserve(out, room), 0);
    char *to = out->data + out->len;
    if (e->br) {
        const uint8_t *in = (const uint8_t *)piece;
        uint8_t *at = (uint8_t *)to;
        assert_true(BrotliEncoderCompressStream(
            e->br, is_last ? BROTLI_OPERATION_FINISH : BROTLI_OPERATION_FLUSH, &n, &in, &room, &at,
            NULL));
        out->len += (size_t)((char *)at - to);
    } else if (e->zstd) {
        ZSTD_inBuffer in = {piece, n, 0};
        ZSTD_outBuffer made = {to, room, 0};
        assert_int_equal(
            ZSTD_compressStream2(e->zstd, &made, &in, is_last ? ZSTD_e_end : ZSTD_e_flush), 0);
        out->len += made.pos;
    } else {
        e->z.next_in = (Bytef *)(uintptr_t)piece;
        e->z.avail_in = (uInt)n;
        e->z.next_out = (Bytef *)to;
        e->z.avail_out = (uInt)room;
        assert_int_equal(deflate(&e->z, is_last ? Z_FINISH : Z_SYNC_FLUSH),
                         is_last ? Z_STREAM_END : Z_OK);
        out->len += (size_t)((char *)e->z.next_out - to);
    }
}

static void encode_whole(const char *coding, const char *text, struct buf *out) {
    struct encoder e;
    encoder_open(&e, coding);
    encode(&e, "", false, out); /* Some flush before they have anything. */
    encode(&e, text, true, out);
    encoder_close(&e);
}

struct script {
    const char *coding;
    atomic_uint taken; /* Events that the agent has. */
    bool timely;
    struct buf head, body; /* Of the request. */
    bool by_bytes;
};

static void put_head(struct engine_request *r, const struct script *s, const char *type) {
    AUTO_BUF struct buf head = {0};
    assert_int_equal(buf_addf(&head,
                              "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: %s\r\n"
                              "Transfer-Encoding: chunked\r\n\r\n",
                              type, s->coding),
                     0);
    engine_write(r, buf_sv(&head));
}

static void put_chunks(struct engine_request *r, const struct script *s, struct sv bytes) {
    while (bytes.n > 0) {
        struct sv piece = {bytes.p, s->by_bytes ? 1 : bytes.n};
        engine_chunk(r, piece);
        bytes = sv_cut(bytes, piece.n);
    }
}

/* The next event is sent when the agent has the one before: nothing may wait in a decoder. */
static void answer_events(struct engine_request *r, void *arg) {
    struct script *s = arg;
    struct encoder e;
    encoder_open(&e, s->coding);
    put_head(r, s, "text/event-stream");
    s->timely = true;
    for (unsigned i = 0; i < ARRAY_LEN(events); i++) {
        AUTO_BUF struct buf b = {0};
        encode(&e, events[i], i + 1 == ARRAY_LEN(events), &b);
        put_chunks(r, s, buf_sv(&b));
        for (int k = 0; i + 1 < ARRAY_LEN(events) && s->taken <= i && s->timely; k++) {
            clock_sleep_ms(1);
            s->timely = k < 5000;
        }
    }
    engine_puts(r, "0\r\n\r\n");
    encoder_close(&e);
}

static void check_events(struct script *s) {
    AUTO_BUF struct buf got = {0};
    AUTO_BUF struct buf want = {0};
    struct fixture f;
    fixture_open(&f, answer_events, s, NULL);
    struct agent a = agent_connect_unix(f.unix_path);
    agent_post(&a, "/v1/chat/completions", NULL, SV(STREAM));
    for (unsigned i = 0; i < ARRAY_LEN(plain); i++) {
        assert_int_equal(buf_adds(&want, plain[i]), 0);
    }
    char bytes[4096];
    ssize_t n;
    while (!strstr(buf_cstr(&got), "\r\n0\r\n\r\n") &&
           (n = recv(a.fd, bytes, sizeof bytes, 0)) > 0) {
        assert_int_equal(buf_add(&got, bytes, (size_t)n), 0);
        for (unsigned i = 0; i < ARRAY_LEN(plain) - 1; i++) {
            s->taken = strstr(buf_cstr(&got), plain[i]) && s->taken == i ? i + 1 : s->taken;
        }
    }
    assert_int_equal(buf_add_sv(&a.in, buf_sv(&got)), 0);
    struct answer r = agent_read(&a);
    assert_true(s->timely);
    assert_true(r.has_end);
    assert_bytes(&r.body, buf_sv(&want));
    assert_null(strcasestr(buf_cstr(&r.head), "content-encoding"));
    answer_deinit(&r);
    agent_close(&a);
    fixture_close(&f);
}

static void each_event_of_a_flushed_stream_comes_out_of_each_coding_at_once(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(codings); i++) {
        struct script s = {.coding = codings[i / 2], .by_bytes = i % 2};
        check_events(&s);
    }
}

static void answer_whole(struct engine_request *r, void *arg) {
    struct script *s = arg;
    AUTO_BUF struct buf b = {0};
    buf_reset(&s->head);
    buf_reset(&s->body);
    assert_int_equal(buf_add_sv(&s->head, r->head), 0);
    assert_int_equal(buf_add_sv(&s->body, r->body), 0);
    encode_whole(s->coding, UNARY("[7]"), &b);
    put_head(r, s, "application/json");
    put_chunks(r, s, buf_sv(&b));
    engine_puts(r, "0\r\n\r\n");
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

static void check_whole(const char *coding, bool edits) {
    AUTO_BUF struct buf body = {0};
    AUTO_BUF struct buf head = {0};
    AUTO_BUF struct buf encoded = {0};
    struct script s = {.coding = coding};
    struct fixture f;
    encode_whole(coding, REQUEST, &body);
    encode_whole(coding, UNARY("[7]"), &encoded);
    fixture_open(&f, answer_whole, &s, edits ? NULL : without_edits);
    struct agent a = agent_connect_unix(f.unix_path);
    assert_int_equal(buf_addf(&head,
                              "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                              "Content-Encoding: %s\r\nContent-Length: %zu\r\n\r\n",
                              coding, body.len),
                     0);
    agent_send(&a, buf_sv(&head));
    agent_send(&a, buf_sv(&body));
    struct answer r = agent_read(&a);
    struct recorded call = fixture_read(&f, 1);
    assert_true(r.has_end);
    assert_bytes(&r.body, edits ? SV(UNARY("null")) : buf_sv(&encoded));
    assert_int_equal(strcasestr(buf_cstr(&r.head), "content-encoding") != NULL, !edits);
    assert_int_equal(strcasestr(buf_cstr(&s.head), "content-encoding") != NULL, !edits);
    if (!edits) {
        assert_bytes(&s.body, buf_sv(&body));
    } else {
        assert_true(sv_starts_with(buf_sv(&s.body), SV("{\"model\":\"m\",\"messages\":[],")));
    }
    assert_bytes(&call.agent_body, SV(REQUEST));
    assert_bytes(&call.ids, SV("[7]"));
    recorded_deinit(&call);
    answer_deinit(&r);
    agent_close(&a);
    fixture_close(&f);
    buf_deinit(&s.head);
    buf_deinit(&s.body);
}

static void
each_coding_is_read_in_both_directions_and_passes_when_nothing_is_changed(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(codings); i++) {
        check_whole(codings[i], true);
        check_whole(codings[i], false);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_event_of_a_flushed_stream_comes_out_of_each_coding_at_once),
    cmocka_unit_test(each_coding_is_read_in_both_directions_and_passes_when_nothing_is_changed),
};

RUN_TESTS(tests)
