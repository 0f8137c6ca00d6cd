/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/format.h"

#include "journal/crc32c.h"
#include "tests/unit/journal/fixture.h"

/* The bytes of a record, as the page on the format has them. */
static void a_record_has_the_bytes_that_are_written_down(void **state) {
    (void)state;
    static const char want[] = "\x1b\0\0\0"           /* Length of the body. */
                               "\0\0\0\0"             /* Its checksum, filled in below. */
                               "\x04\0\0\0"           /* Type and flags. */
                               "\x02\0\0\0\0\0\0\0"   /* Call. */
                               "\0\0\0\0\0\0\xf8\x3f" /* Time: 1.5. */
                               "\x04\0\0\0\x02\0\0\0" /* Lengths of session and head. */
                               "\x01\0\0\0";          /* Parts. */
    struct journal_record r = {.type = JOURNAL_RESULT,
                               .session = SV("r1.1"),
                               .call = 2,
                               .time = 1.5,
                               .head = SV("{}"),
                               .parts = {{SV("response"), SV("{ 1 }")}},
                               .n_parts = 1};
    struct err err = {0};
    char bytes[128];
    size_t n = 0;
    assert_ok(format_measure(&r, &n, &err), &err);
    assert_int_equal(n, FORMAT_HEAD_BYTES + 0x1b);
    format_write(&r, bytes);
    assert_memory_equal(bytes + 48, "r1.1{}\x08\0\0\0\x05\0\0\0response{ 1 }", 0x1b);
    uint32_t crc = crc32c(0, bytes + 48, 0x1b);
    assert_memory_equal(bytes + 8, &crc, 4);
    memset(bytes + 8, 0, 4);
    assert_memory_equal(bytes + 4, want, 40);
    crc = crc32c(0, "r1.1", 4);
    assert_memory_equal(bytes + 44, &crc, 4);
}

static void a_record_whose_parts_stay_where_they_are_has_the_same_bytes(void **state) {
    (void)state;
    struct journal_record r = record(7, SV("[1,2]"));
    r.parts[1] = (struct journal_part){SV("empty"), {NULL, 0}};
    r.parts[2] = (struct journal_part){SV("usage"), SV("{}")};
    for (r.n_parts = 0; r.n_parts <= 3; r.n_parts++) {
        struct err err = {0};
        struct iovec spans[FORMAT_SPANS_MAX];
        size_t n = 0;
        assert_ok(format_measure(&r, &n, &err), &err);
        AUTO_FREE char *want = malloc(n);
        AUTO_FREE char *frame = malloc(format_frame_bytes(&r));
        AUTO_BUF struct buf got = {0};
        format_write(&r, want);
        unsigned n_spans = format_lay(&r, /* keeps= */ true, frame, spans);
        format_seal(spans, n_spans);
        for (unsigned i = 0; i < n_spans; i++) {
            assert_int_equal(buf_add(&got, spans[i].iov_base, spans[i].iov_len), 0);
        }
        assert_int_equal(got.len, n);
        assert_memory_equal(got.data, want, n);
        assert_true(n_spans == 1 || spans[1].iov_base == r.parts[0].bytes.p);
    }
}

static void a_record_reads_back_as_it_was(void **state) {
    (void)state;
    struct journal_record r = record(7, SV("\"\0\xff\n\""));
    r.parts[2] = (struct journal_part){SV("empty"), {NULL, 0}};
    r.n_parts = 3;
    struct err err = {0};
    size_t n = 0;
    assert_ok(format_measure(&r, &n, &err), &err);
    AUTO_FREE char *bytes = malloc(n);
    format_write(&r, bytes);
    struct format_head head;
    struct journal_record got;
    assert_true(format_read_head(bytes, &head));
    assert_true(
        format_read_body(&head, (struct sv){bytes + FORMAT_HEAD_BYTES, head.body_bytes}, &got));
    assert_int_equal(got.type, r.type);
    assert_int_equal(got.call, 7);
    assert_true(got.time == 1.5);
    assert_true(sv_eq(got.session, r.session));
    assert_true(sv_eq(got.head, r.head));
    assert_int_equal(got.n_parts, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(sv_eq(got.parts[i].name, r.parts[i].name));
        assert_true(sv_eq(got.parts[i].bytes, r.parts[i].bytes));
    }
}

static void a_flipped_bit_anywhere_is_seen(void **state) {
    (void)state;
    struct journal_record r = record(1, SV("{}"));
    struct err err = {0};
    size_t n = 0;
    assert_ok(format_measure(&r, &n, &err), &err);
    AUTO_FREE char *bytes = malloc(n);
    format_write(&r, bytes);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        struct format_head head;
        struct journal_record got;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        struct sv body = {bytes + FORMAT_HEAD_BYTES, n - FORMAT_HEAD_BYTES};
        assert_false(format_read_head(bytes, &head) && format_read_body(&head, body, &got));
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
}

/* Right checksums over lengths that do not add up. */
static void lengths_that_do_not_add_up_are_damage(void **state) {
    (void)state;
    static const struct format_head bad[] = {
        {.session_bytes = 4, .json_bytes = 2, .n_parts = 0},
        {.session_bytes = 4, .json_bytes = 2, .n_parts = 2},
        {.session_bytes = 4, .json_bytes = 2, .n_parts = 17},
        {.session_bytes = 4, .json_bytes = 0xffffffff, .n_parts = 1},
        {.session_bytes = 128, .json_bytes = 2, .n_parts = 1},
        {.session_bytes = 4, .json_bytes = 3, .n_parts = 1},
    };
    struct sv body = SV("r1.1{}\x01\0\0\0\x01\0\0\0a1");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct format_head head = bad[i];
        struct journal_record got;
        head.body_bytes = (uint32_t)body.n;
        head.body_crc = crc32c(0, body.p, body.n);
        assert_false(format_read_body(&head, body, &got));
    }
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    size_t n = 0;
    struct journal_record r = record(1, (struct sv){"", FORMAT_BODY_MAX});
    assert_err(format_measure(&r, &n, &err), ERR_LIMIT, &err, "at most");
    r = record(1, SV("1"));
    r.session.n = 0;
    assert_err(format_measure(&r, &n, &err), ERR_LIMIT, &err, "session");
    r = record(1, SV("1"));
    r.parts[0].name = SV("0123456789012345678901234567890123456789012345678901234567890123");
    assert_err(format_measure(&r, &n, &err), ERR_LIMIT, &err, "part");
    r.n_parts = JOURNAL_PARTS_MAX + 1;
    assert_err(format_measure(&r, &n, &err), ERR_LIMIT, &err, "parts");
}

static void a_header_tells_a_journal_from_others(void **state) {
    (void)state;
    AUTO_BUF struct buf b = {0};
    size_t n = 0;
    assert_int_equal(format_add_segment_header("host-1-2", &b), 0);
    for (size_t cut = 0; cut < b.len; cut++) {
        assert_int_equal(format_read_segment_header((struct sv){b.data, cut}, &n), 0);
    }
    assert_int_equal(format_read_segment_header(buf_sv(&b), &n), 1);
    assert_int_equal(n, b.len);
    b.data[10] = 9; /* A minor version: part of the checksum, not refused as a version. */
    assert_int_equal(format_read_segment_header(buf_sv(&b), &n), ERR_CORRUPT);
    b.data[8] = 2;
    assert_int_equal(format_read_segment_header(buf_sv(&b), &n), ERR_UNSUPPORTED);
    b.data[0] = 's';
    assert_int_equal(format_read_segment_header(buf_sv(&b), &n), ERR_CORRUPT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_record_has_the_bytes_that_are_written_down),
    cmocka_unit_test(a_record_whose_parts_stay_where_they_are_has_the_same_bytes),
    cmocka_unit_test(a_record_reads_back_as_it_was),
    cmocka_unit_test(a_flipped_bit_anywhere_is_seen),
    cmocka_unit_test(lengths_that_do_not_add_up_are_damage),
    cmocka_unit_test(what_does_not_fit_is_refused),
    cmocka_unit_test(a_header_tells_a_journal_from_others),
};

RUN_TESTS(tests)
