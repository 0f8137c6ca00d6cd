/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/report.h"

#include <string.h>

#include "base/mem.h"
#include "guest/parcel.h"
#include "guest/protocol.h"
#include "tests/testing.h"

static void add_record(struct protocol_out *o, uint64_t exit_code) {
    protocol_add_u64(o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add_u64(o, PROTOCOL_PID, 77);
    protocol_add_u64(o, PROTOCOL_EXIT_CODE, exit_code);
    protocol_add_u64(o, PROTOCOL_TIMED_OUT, exit_code == 124);
}

static void make_whole(struct buf *b) {
    struct protocol_out o = protocol_fields_begin(b);
    add_record(&o, 124);
    protocol_add_u64(&o, PROTOCOL_OUT_TOTAL, 9);
    protocol_add(&o, PROTOCOL_BYTES, SV("out\n"));
    protocol_add_u64(&o, PROTOCOL_ERR_TOTAL, 0);
    protocol_add(&o, PROTOCOL_BYTES, SV(""));
    assert_int_equal(protocol_fields_end(&o), 0);
}

static void a_record_tells_the_end_and_the_output(void **state) {
    (void)state;
    struct hf_report r = {0};
    struct err err = {0};
    AUTO_BUF struct buf b = {0};
    make_whole(&b);
    assert_ok(hf_report_read(buf_sv(&b), &r, &err), &err);
    assert_true(r.is_there && r.has_ended && r.timed_out && r.has_output);
    assert_int_equal(r.exit_code, 124);
    assert_string_equal(buf_cstr(&r.out), "out\n");
    assert_int_equal(r.out_total, 9);
    assert_int_equal(r.err.len + r.err_total, 0);
    hf_report_deinit(&r);
}

static void one_that_runs_has_not_ended(void **state) {
    (void)state;
    struct hf_report r = {0};
    struct err err = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_out o = protocol_fields_begin(&b);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add_u64(&o, PROTOCOL_PID, 77);
    assert_ok(hf_report_read(buf_sv(&b), &r, &err), &err);
    assert_true(r.is_there && !r.has_ended && !r.has_output);
}

static void one_that_never_ran_gives_its_own_error(void **state) {
    (void)state;
    struct hf_report r = {0};
    struct err err = {0};
    AUTO_BUF struct buf b = {0};
    struct protocol_out o = protocol_fields_begin(&b);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add_u64(&o, PROTOCOL_CODE, ERR_POS_NOT_FOUND);
    protocol_add(&o, PROTOCOL_MESSAGE, SV("cannot run 'x'"));
    assert_err(hf_report_read(buf_sv(&b), &r, &err), ERR_NOT_FOUND, &err, "cannot run 'x'");
    buf_reset(&b);
    o = protocol_fields_begin(&b);
    protocol_add_u64(&o, PROTOCOL_CODE, 1u << 20);
    assert_err(hf_report_read(buf_sv(&b), &r, &err), ERR_PROTOCOL, &err, "says not why");
    assert_false(r.is_there);
}

static void words_of_an_error_are_one_line_or_none(void **state) {
    (void)state;
    static const struct {
        struct sv words;
        const char *want;
    } rows[] = {{{"two\nlines\x1b", 10}, "two lines "},
                {{"\0hidden", 7}, " hidden"},
                {{"", 0}, "says not why"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct hf_report r = {0};
        struct err err = {0};
        AUTO_BUF struct buf b = {0};
        struct protocol_out o = protocol_fields_begin(&b);
        protocol_add_u64(&o, PROTOCOL_CODE, ERR_POS_NOT_FOUND);
        protocol_add(&o, PROTOCOL_MESSAGE, rows[i].words);
        assert_err(hf_report_read(buf_sv(&b), &r, &err), ERR_NOT_FOUND, &err, rows[i].want);
        assert_null(strpbrk(err.msg, "\n\x1b"));
    }
}

static void what_is_no_record_tells_nothing(void **state) {
    (void)state;
    struct hf_report r = {0};
    struct err err = {0};
    AUTO_BUF struct buf b = {0};
    assert_err(hf_report_read(SV(""), &r, &err), ERR_PROTOCOL, &err, "no record");
    struct protocol_out o = protocol_fields_begin(&b);
    add_record(&o, 256);
    assert_err(hf_report_read(buf_sv(&b), &r, &err), ERR_PROTOCOL, &err, "no exit code");
    assert_false(r.has_ended);
}

/* As text through a pipe: a part of it is never taken for the whole. */
static void a_told_report_cut_anywhere_is_not_known(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_BUF struct buf b = {0};
    AUTO_BUF struct buf text = {0};
    make_whole(&b);
    assert_int_equal(parcel_put(buf_sv(&b), &text), 0);
    for (size_t n = 0; n < text.len; n++) {
        struct hf_report r = {0};
        bool whole = false;
        assert_err(hf_report_open((struct sv){text.data, n}, &r, &whole, &err), ERR_PROTOCOL, &err,
                   "whole");
        assert_false(whole || r.is_there);
    }
    struct hf_report r = {0};
    bool whole = false;
    assert_ok(hf_report_open(buf_sv(&text), &r, &whole, &err), &err);
    assert_true(whole && r.has_ended && r.has_output);
    hf_report_deinit(&r);
}

/* As a file that was read in part: it is an error, or tells less, and never another end. */
static void a_record_cut_anywhere_never_tells_another_end(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_BUF struct buf b = {0};
    make_whole(&b);
    for (size_t n = 0; n < b.len; n++) {
        struct hf_report r = {0};
        if (hf_report_read((struct sv){b.data, n}, &r, &err) == 0) {
            assert_true(!r.has_ended || r.exit_code == 124);
            assert_true(!r.has_output || r.out.len == 4);
        }
        hf_report_deinit(&r);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_record_tells_the_end_and_the_output),
    cmocka_unit_test(one_that_runs_has_not_ended),
    cmocka_unit_test(one_that_never_ran_gives_its_own_error),
    cmocka_unit_test(words_of_an_error_are_one_line_or_none),
    cmocka_unit_test(what_is_no_record_tells_nothing),
    cmocka_unit_test(a_told_report_cut_anywhere_is_not_known),
    cmocka_unit_test(a_record_cut_anywhere_never_tells_another_end),
};

RUN_TESTS(tests)
