/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/protocol.h"

#include "base/mem.h"
#include "tests/testing.h"

/* A hello, an exec with repeated and empty fields, a piece of binary content, and a bare frame. */
static void add_sample(struct buf *b) {
    struct protocol_out o = protocol_begin(b, PROTOCOL_HELLO, 0);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, 1);
    assert_int_equal(protocol_end(&o), 0);
    o = protocol_begin(b, PROTOCOL_START, 7);
    protocol_add(&o, PROTOCOL_ARGV, SV("printf"));
    protocol_add(&o, PROTOCOL_ARGV, SV(""));
    protocol_add(&o, PROTOCOL_ARGV, SV("a\nb"));
    protocol_add_u64(&o, PROTOCOL_TIMEOUT_MS, UINT64_MAX);
    assert_int_equal(protocol_end(&o), 0);
    o = protocol_begin(b, PROTOCOL_OUTPUT, UINT32_MAX);
    protocol_add(&o, PROTOCOL_BYTES, SV("\0\xff\x80 bytes"));
    assert_int_equal(protocol_end(&o), 0);
    o = protocol_begin(b, PROTOCOL_DONE, 7);
    assert_int_equal(protocol_end(&o), 0);
}

/* Every frame that is there, written again. */
static void decode(struct protocol_in *in, struct buf *out) {
    struct protocol_frame f;
    struct err err = {0};
    int r;
    while ((r = protocol_next(in, &f, &err)) > 0) {
        struct protocol_out o = protocol_begin(out, f.type, f.id);
        uint8_t tag;
        struct sv value;
        while (protocol_each(&f.fields, &tag, &value)) {
            protocol_add(&o, tag, value);
        }
        assert_int_equal(protocol_end(&o), 0);
    }
    assert_ok(r, &err);
}

static void frames_come_out_as_they_went_in_wherever_the_stream_is_cut(void **state) {
    (void)state;
    AUTO_BUF struct buf sample = {0};
    add_sample(&sample);
    for (size_t cut = 0; cut <= sample.len; cut++) {
        AUTO(protocol_in_deinit) struct protocol_in in = {0};
        AUTO_BUF struct buf out = {0};
        assert_int_equal(protocol_feed(&in, sample.data, cut), 0);
        decode(&in, &out);
        assert_int_equal(protocol_feed(&in, sample.data + cut, sample.len - cut), 0);
        decode(&in, &out);
        assert_true(sv_eq(buf_sv(&out), buf_sv(&sample)));
    }
}

static void frames_come_out_as_they_went_in_byte_by_byte(void **state) {
    (void)state;
    AUTO_BUF struct buf sample = {0};
    AUTO_BUF struct buf out = {0};
    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    add_sample(&sample);
    for (size_t i = 0; i < sample.len; i++) {
        assert_int_equal(protocol_feed(&in, sample.data + i, 1), 0);
        decode(&in, &out);
    }
    assert_true(sv_eq(buf_sv(&out), buf_sv(&sample)));
}

static void fields_are_found_by_tag(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    struct protocol_out o = protocol_fields_begin(&b);
    protocol_add(&o, 99, SV("of a later version"));
    protocol_add(&o, PROTOCOL_PATH, SV("first"));
    protocol_add(&o, PROTOCOL_PATH, SV("second"));
    protocol_add_u64(&o, PROTOCOL_OFFSET, 0x0102030405060708);
    assert_int_equal(protocol_fields_end(&o), 0);
    struct err err = {0};
    assert_ok(protocol_check(buf_sv(&b), &err), &err);
    struct sv value;
    assert_true(protocol_find(buf_sv(&b), PROTOCOL_PATH, &value));
    assert_true(sv_eq(value, SV("first")));
    assert_false(protocol_find(buf_sv(&b), PROTOCOL_CWD, &value));
    assert_true(protocol_u64(buf_sv(&b), PROTOCOL_OFFSET, 0) == 0x0102030405060708);
    assert_true(protocol_u64(buf_sv(&b), PROTOCOL_LENGTH, 5) == 5);
}

static void check_refused(struct sv stream, const char *words) {
    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    struct protocol_frame f;
    struct err err = {0};
    assert_int_equal(protocol_feed(&in, stream.p, stream.n), 0);
    assert_err(protocol_next(&in, &f, &err), ERR_PROTOCOL, &err, words);
}

static void what_is_no_frame_is_refused_with_its_fault(void **state) {
    (void)state;
    check_refused(SV("\xff\xff\xff\xff"), "a frame of 4294967295 bytes");
    check_refused(SV("\0\0\0\4"), "a frame of 4 bytes");
    check_refused(SV("\0\x10\0\1"), "a frame of 1048577 bytes");
    check_refused(SV("\0\0\0\7\1\0\0\0\0\x07\0"), "ends within a field's head");
    check_refused(SV("\0\0\0\x0b\1\0\0\0\0\x07\0\0\0\2a"), "field 7 runs past");
    check_refused(SV("\0\0\0\x0b\1\0\0\0\0\x07\xff\xff\xff\xff"
                     "a"),
                  "field 7 runs past");
    check_refused(SV("\0\0\0\x0b\1\0\0\0\0\x80\0\0\0\1a"), "field 128 is an integer of 1 bytes");
}

static void a_frame_holds_so_much_and_no_more(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    AUTO_FREE char *bytes = calloc(1, PROTOCOL_FRAME_MAX);
    assert_non_null(bytes);
    struct protocol_out o = protocol_begin(&b, PROTOCOL_OUTPUT, 1);
    protocol_add(&o, PROTOCOL_BYTES, (struct sv){bytes, PROTOCOL_FRAME_MAX - 10});
    assert_int_equal(protocol_end(&o), 0);
    size_t before = b.len;
    o = protocol_begin(&b, PROTOCOL_OUTPUT, 1);
    protocol_add(&o, PROTOCOL_BYTES, (struct sv){bytes, PROTOCOL_FRAME_MAX - 9});
    assert_int_equal(protocol_end(&o), ERR_LIMIT);
    assert_int_equal(b.len, before);

    AUTO(protocol_in_deinit) struct protocol_in in = {0};
    struct protocol_frame f;
    struct err err = {0};
    assert_int_equal(protocol_feed(&in, b.data, b.len), 0);
    assert_ok(protocol_next(&in, &f, &err), &err);
    assert_int_equal(f.fields.n, PROTOCOL_FRAME_MAX - 5);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(frames_come_out_as_they_went_in_wherever_the_stream_is_cut),
    cmocka_unit_test(frames_come_out_as_they_went_in_byte_by_byte),
    cmocka_unit_test(fields_are_found_by_tag),
    cmocka_unit_test(what_is_no_frame_is_refused_with_its_fault),
    cmocka_unit_test(a_frame_holds_so_much_and_no_more),
};

RUN_TESTS(tests)
