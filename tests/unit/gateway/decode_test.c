/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/decode.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/testing.h"

static const char text[] = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
                           "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \xc3\xa9\"}]}";
#define TEXT ((struct sv){text, sizeof text - 1})

/* The text in br, of which there is no encoder here. */
static const char text_br[] =
    "\x1b\x6d\x00\x00\x04\xca\x6d\xa9\x8e\xcb\x0b\xe9\x53\x1d\x06\x41\x9b\x43\xfa\x58\x0c\x96"
    "\x2c\x6c\xc0\x09\x41\x60\xe1\x46\xd3\x88\x37\xb2\x9d\xa9\x53\xe4\x5d\xfb\x20\x12\x47\x50"
    "\x14\x85\x28\x88\x40\xa1\x70\xd6\x6f\x6b\x31\x49\xfb\x8f\x1e\x0d";
#define TEXT_BR ((struct sv){text_br, sizeof text_br - 1})

static void deflate_with(int bits, struct sv plain, struct buf *out) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(buf_reserve(out, deflateBound(&z, plain.n)), 0);
    z.next_in = (Bytef *)(uintptr_t)plain.p;
    z.avail_in = (uInt)plain.n;
    z.next_out = (Bytef *)out->data + out->len;
    z.avail_out = (uInt)(out->cap - out->len);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len += z.total_out;
    deflateEnd(&z);
}

static void zstd(struct sv plain, struct buf *out) {
    size_t most = ZSTD_compressBound(plain.n);
    assert_int_equal(buf_reserve(out, most), 0);
    size_t n = ZSTD_compress(out->data + out->len, most, plain.p, plain.n, 3);
    assert_false(ZSTD_isError(n));
    out->len += n;
}

/* A head with this Content-Encoding, on `line`. */
static struct http1_head head_of(const char *coding, char line[static 64]) {
    int n = snprintf(line, 64, "content-encoding: %s\r\n", coding);
    return (struct http1_head){
        .raw = {line, (size_t)n},
        .n_fields = 1,
        .fields = {{0, (uint32_t)n, 16, 18, (uint32_t)n - 20}},
    };
}

static struct decode *decoder(const char *coding, uint64_t max) {
    char line[64];
    struct http1_head head = head_of(coding, line);
    struct decode *d = NULL;
    struct err e = {0};
    assert_ok(decode_new(&head, max, &d, &e), &e);
    assert_non_null(d);
    return d;
}

static int add(void *out, struct sv plain, struct err *err) {
    (void)err;
    return buf_add_sv(out, plain);
}

static int decode_cut(const char *coding, struct sv in, size_t cut, struct buf *out) {
    struct decode *d = decoder(coding, 1 << 20);
    int rc = decode_feed(d, (struct sv){in.p, cut}, add, out, NULL);
    rc = rc < 0 ? rc : decode_feed(d, sv_cut(in, cut), add, out, NULL);
    rc = rc < 0 ? rc : decode_end(d, NULL);
    decode_free(d);
    return rc;
}

/* Cut at every byte it is the text; ended before its end it is told to be cut off. */
static void check(const char *coding, struct sv in, struct sv want) {
    for (size_t cut = 0; cut <= in.n; cut++) {
        AUTO_BUF struct buf out = {0};
        AUTO_BUF struct buf part = {0};
        assert_int_equal(decode_cut(coding, in, cut, &out), 0);
        assert_true(sv_eq(buf_sv(&out), want));
        if (cut > 0 && cut < in.n && want.n == TEXT.n) {
            assert_int_equal(decode_cut(coding, (struct sv){in.p, cut}, 0, &part), ERR_CLOSED);
        }
    }
}

static void every_coding_is_undone_wherever_it_is_cut(void **state) {
    AUTO_BUF struct buf gzip = {0};
    AUTO_BUF struct buf framed = {0};
    AUTO_BUF struct buf bare = {0};
    AUTO_BUF struct buf frame = {0};
    AUTO_BUF struct buf stack = {0};
    (void)state;
    deflate_with(16 + MAX_WBITS, TEXT, &gzip);
    deflate_with(MAX_WBITS, TEXT, &framed);
    deflate_with(-MAX_WBITS, TEXT, &bare);
    zstd(TEXT, &frame);
    zstd(buf_sv(&gzip), &stack);
    check("gzip", buf_sv(&gzip), TEXT);
    check("X-GZIP, identity", buf_sv(&gzip), TEXT);
    check("deflate", buf_sv(&framed), TEXT);
    check("deflate", buf_sv(&bare), TEXT);
    check("br", TEXT_BR, TEXT);
    check("zstd", buf_sv(&frame), TEXT);
    check("gzip , zstd", buf_sv(&stack), TEXT);
}

static void members_behind_one_another_are_one_body(void **state) {
    AUTO_BUF struct buf gzip = {0};
    AUTO_BUF struct buf frames = {0};
    AUTO_BUF struct buf twice = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        deflate_with(16 + MAX_WBITS, TEXT, &gzip);
        zstd(TEXT, &frames);
        assert_int_equal(buf_add_sv(&twice, TEXT), 0);
    }
    check("gzip", buf_sv(&gzip), buf_sv(&twice));
    check("zstd", buf_sv(&frames), buf_sv(&twice));
}

/* What an encoder flushed at an event's end can be read at once. */
static void a_flushed_event_comes_out_at_once(void **state) {
    AUTO_BUF struct buf out = {0};
    char bytes[256];
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text,
                  .avail_in = sizeof text - 1,
                  .next_out = (Bytef *)bytes,
                  .avail_out = sizeof bytes};
    struct decode *d = decoder("gzip", 1000);
    struct err e = {0};
    (void)state;
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_SYNC_FLUSH), Z_OK);
    assert_ok(decode_feed(d, (struct sv){bytes, z.total_out}, add, &out, &e), &e);
    assert_true(sv_eq(buf_sv(&out), TEXT));
    assert_err(decode_end(d, &e), ERR_CLOSED, &e, "breaks off");
    deflateEnd(&z);
    decode_free(d);
}

static void a_bomb_stops_at_the_limit(void **state) {
    static const char zeros[1 << 20];
    AUTO_BUF struct buf bomb = {0};
    AUTO_BUF struct buf twice = {0};
    AUTO_BUF struct buf out = {0};
    struct err e = {0};
    (void)state;
    zstd((struct sv){zeros, sizeof zeros}, &bomb);
    deflate_with(31, buf_sv(&bomb), &twice);
    struct decode *d = decoder("zstd, gzip", 100000);
    assert_err(decode_whole(d, buf_sv(&twice), &out, &e), ERR_LIMIT, &e, "too large");
    assert_int_equal(out.len, 100000);
    decode_free(d);
}

static void what_is_not_in_the_coding_is_refused(void **state) {
    static const char *const codings[] = {"gzip", "deflate", "br", "zstd", "br, gzip"};
    (void)state;
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++) {
        AUTO_BUF struct buf out = {0};
        AUTO_BUF struct buf none = {0};
        assert_int_equal(decode_cut(codings[i], SV("{\"model\":\"m\"} and more"), 3, &out),
                         ERR_INPUT);
        assert_int_equal(decode_cut(codings[i], SV(""), 0, &none), 0);
    }
    AUTO_BUF struct buf out = {0};
    AUTO_BUF struct buf more = {0};
    assert_int_equal(buf_add_sv(&more, TEXT_BR), 0);
    assert_int_equal(buf_addc(&more, 'x'), 0);
    assert_int_equal(decode_cut("br", buf_sv(&more), 4, &out), ERR_INPUT);
}

static void unknown_codings_are_named(void **state) {
    static const char *const bad[] = {"compress", "gzip;q=1", "gzip,gzip,br,zstd"};
    char line[64];
    struct http1_head head;
    struct decode *d;
    struct err e = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        head = head_of(bad[i], line);
        assert_err(decode_new(&head, 1, &d, &e), ERR_UNSUPPORTED, &e, "is not known");
    }
    head = head_of("identity", line);
    assert_int_equal(decode_new(&head, 1, &d, &e), 0);
    assert_null(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_coding_is_undone_wherever_it_is_cut),
        cmocka_unit_test(members_behind_one_another_are_one_body),
        cmocka_unit_test(a_flushed_event_comes_out_at_once),
        cmocka_unit_test(a_bomb_stops_at_the_limit),
        cmocka_unit_test(what_is_not_in_the_coding_is_refused),
        cmocka_unit_test(unknown_codings_are_named),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
