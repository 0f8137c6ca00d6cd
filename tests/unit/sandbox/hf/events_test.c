/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/hf/events.h"

#include "tests/testing.h"

#define START "{\"event\":\"start\",\"pid\":1234}\n"
#define PING "{\"event\":\"ping\"}\n"
#define END "{\"duration_ms\":6,\"event\":\"exit\",\"exit_code\":3,\"signal\":null}\n"

static void a_stream_tells_both_outputs_and_the_end(void **state) {
    (void)state;
    struct hf_events e = {0};
    struct err err = {0};
    struct sv stream = SV(START "{\"data\":\"one \",\"event\":\"stdout\"}\n" PING
                                "{\"data\":\"warn\",\"event\":\"stderr\"}\n"
                                "{\"data\":\"two\",\"event\":\"stdout\"}\n" END);
    assert_ok(hf_events_read(stream, &e, &err), &err);
    assert_int_equal(e.exit_code, 3);
    assert_string_equal(buf_cstr(&e.out), "one two");
    assert_string_equal(buf_cstr(&e.err), "warn");
    hf_events_deinit(&e);
}

static void an_end_that_nobody_saw_is_never_0(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int code;
    } rows[] = {
        {"{\"event\":\"exit\",\"exit_code\":0,\"signal\":null}", 0},
        {"{\"event\":\"exit\",\"exit_code\":null,\"signal\":9}", 137},
        {"{\"event\":\"exit\",\"exit_code\":null,\"signal\":15}", 143},
        {"{\"event\":\"exit\",\"exit_code\":null,\"signal\":null}", 137},
        {"{\"event\":\"exit\"}", 137},
        {"{\"event\":\"exit\",\"exit_code\":\"0\"}", 137},
        {"{\"event\":\"exit\",\"exit_code\":0.0}", 137},
        {"{\"event\":\"exit\",\"exit_code\":4294967296}", 137},
        {"{\"event\":\"exit\",\"exit_code\":-1}", 137},
        {"{\"event\":\"exit\",\"signal\":9223372036854775807}", 137},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hf_events e = {0};
        struct err err = {0};
        assert_ok(hf_events_read(sv_from(rows[i].line), &e, &err), &err);
        assert_int_equal(e.exit_code, rows[i].code);
        hf_events_deinit(&e);
    }
}

/* A line that is cut is no event: so whatever is heard was told. */
static void a_stream_cut_anywhere_tells_no_end_and_no_more_than_was_sent(void **state) {
    (void)state;
    struct sv whole = SV(START "{\"data\":\"caf\\u00e9 \",\"event\":\"stdout\"}\n"
                               "{\"data\":\"\xc3\xa9\",\"event\":\"stdout\"}\n" END);
    size_t end = whole.n - 1; /* The last line is whole without its line feed. */
    for (size_t n = 0; n < end; n++) {
        struct hf_events e = {0};
        struct err err = {0};
        assert_err(hf_events_read((struct sv){whole.p, n}, &e, &err), ERR_CLOSED, &err, "no end");
        assert_int_equal(memcmp(buf_cstr(&e.out), "caf\xc3\xa9 \xc3\xa9", e.out.len), 0);
        hf_events_deinit(&e);
    }
    for (size_t n = end; n <= whole.n; n++) {
        struct hf_events e = {0};
        struct err err = {0};
        assert_ok(hf_events_read((struct sv){whole.p, n}, &e, &err), &err);
        assert_int_equal(e.exit_code, 3);
        hf_events_deinit(&e);
    }
}

static void what_is_no_event_is_passed_over(void **state) {
    (void)state;
    struct hf_events e = {0};
    struct err err = {0};
    struct sv stream = SV("\n[]\nnull\n{\"event\":7}\n<html>\n{\"event\":\"new\",\"data\":\"x\"}\n"
                          "{\"event\":\"stdout\"}\n{\"event\":\"stderr\",\"data\":[]}\n" END);
    assert_ok(hf_events_read(stream, &e, &err), &err);
    assert_int_equal(e.out.len + e.err.len, 0);
    hf_events_deinit(&e);
}

static void of_errors_the_beginning_is_kept(void **state) {
    (void)state;
    struct hf_events e = {0};
    struct err err = {0};
    AUTO_BUF struct buf stream = {0};
    for (int i = 0; i < 100; i++) {
        assert_int_equal(
            buf_addf(&stream, "{\"event\":\"stderr\",\"data\":\"line %d of many\"}\n", i), 0);
    }
    assert_int_equal(buf_adds(&stream, END), 0);
    assert_ok(hf_events_read(buf_sv(&stream), &e, &err), &err);
    assert_true(sv_starts_with(buf_sv(&e.err), SV("line 0 of manyline 1")));
    assert_true(e.err.len >= HF_EVENTS_ERR_MAX && e.err.len < 2 * HF_EVENTS_ERR_MAX);
    hf_events_deinit(&e);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_stream_tells_both_outputs_and_the_end),
    cmocka_unit_test(an_end_that_nobody_saw_is_never_0),
    cmocka_unit_test(a_stream_cut_anywhere_tells_no_end_and_no_more_than_was_sent),
    cmocka_unit_test(what_is_no_event_is_passed_over),
    cmocka_unit_test(of_errors_the_beginning_is_kept),
};

RUN_TESTS(tests)
