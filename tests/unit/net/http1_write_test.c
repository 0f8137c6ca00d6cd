/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/http1.h"

#include "tests/testing.h"

static void a_request_head_is_written_with_one_framing(void **state) {
    (void)state;
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    assert_ok(http1_put_request(&out, SV("POST"), SV("/v1/x"), &err), &err);
    assert_ok(http1_put_field(&out, SV("Host"), SV("a:1"), &err), &err);
    assert_ok(http1_put_framing(&out, HTTP1_LENGTH, 12, &err), &err);
    assert_ok(http1_put_end(&out, &err), &err);
    assert_string_equal(buf_cstr(&out),
                        "POST /v1/x HTTP/1.1\r\nHost: a:1\r\nContent-Length: 12\r\n\r\n");
}

static void a_status_line_has_the_usual_reason_or_the_given_one(void **state) {
    (void)state;
    AUTO_BUF struct buf out = {0};
    assert_int_equal(http1_put_status(&out, 404, (struct sv){0}, NULL), 0);
    assert_int_equal(http1_put_status(&out, 200, SV("Fine"), NULL), 0);
    assert_int_equal(http1_put_status(&out, 200, SV(""), NULL), 0);
    assert_string_equal(buf_cstr(&out),
                        "HTTP/1.1 404 Not Found\r\nHTTP/1.1 200 Fine\r\nHTTP/1.1 200 \r\n");
}

static void what_would_break_a_head_is_refused_without_repeating_values(void **state) {
    (void)state;
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    assert_err(http1_put_field(&out, SV("X"), SV("sec\r\nY: 1"), &err), ERR_INPUT, &err, "'X'");
    assert_null(strstr(err.msg, "sec"));
    assert_err(http1_put_field(&out, SV("X Y"), SV("1"), &err), ERR_INPUT, &err, "field name");
    assert_err(http1_put_field(&out, SV("content-length"), SV("1"), &err), ERR_INPUT, &err,
               "codec alone");
    assert_err(http1_put_request(&out, SV("GET"), SV("/a b"), &err), ERR_INPUT, &err, "target");
    assert_err(http1_put_status(&out, 20, SV("x"), &err), ERR_INPUT, &err, "'20'");
    assert_int_equal(out.len, 0);
}

static void chunk_lines_are_hexadecimal(void **state) {
    (void)state;
    char line[HTTP1_CHUNK_HEAD_MAX];
    assert_true(sv_eq(http1_chunk_head(line, 0), SV("0\r\n")));
    assert_true(sv_eq(http1_chunk_head(line, 0x1abc), SV("1abc\r\n")));
    assert_true(sv_eq(http1_chunk_head(line, SIZE_MAX), SV("ffffffffffffffff\r\n")));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_request_head_is_written_with_one_framing),
    cmocka_unit_test(a_status_line_has_the_usual_reason_or_the_given_one),
    cmocka_unit_test(what_would_break_a_head_is_refused_without_repeating_values),
    cmocka_unit_test(chunk_lines_are_hexadecimal),
};

RUN_TESTS(tests)
