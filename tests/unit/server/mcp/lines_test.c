/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/lines.h"

#include "tests/testing.h"

/* Each line in brackets; one that was too long as "!". */
static void note(void *arg, struct sv line, bool is_too_long) {
    struct buf *out = arg;
    int r = is_too_long ? buf_addc(out, '!') : buf_addf(out, "[%.*s]", SV_ARG(line));
    assert_int_equal(r, 0);
}

static const char stream[] = "{\"a\":1}\n\n\r\n{\"b\":\"\xc3\xa9\"}\r\n{\"c\":3}\n{\"d\":4}";
static const char want[] = "[{\"a\":1}][{\"b\":\"\xc3\xa9\"}][{\"c\":3}][{\"d\":4}]";

static void lines_are_the_same_however_the_stream_is_cut(void **state) {
    (void)state;
    struct sv all = sv_from(stream);
    for (size_t cut = 0; cut <= all.n; cut++) {
        for (size_t step = 1; step <= all.n; step += all.n - 1) { /* In two, and byte by byte. */
            struct mcp_lines l = {0};
            AUTO_BUF struct buf got = {0};
            struct err err = {0};
            assert_ok(mcp_lines_feed(&l, (struct sv){all.p, cut}, note, &got, &err), &err);
            for (size_t at = cut; at < all.n; at += step) {
                size_t n = step < all.n - at ? step : all.n - at;
                assert_ok(mcp_lines_feed(&l, (struct sv){all.p + at, n}, note, &got, &err), &err);
            }
            mcp_lines_end(&l, note, &got);
            assert_string_equal(buf_cstr(&got), want);
            mcp_lines_deinit(&l);
        }
    }
}

static void a_line_that_is_too_long_is_told_once_and_the_next_is_read(void **state) {
    (void)state;
    static char piece[1 << 20];
    struct mcp_lines l = {0};
    AUTO_BUF struct buf got = {0};
    struct err err = {0};
    memset(piece, 'x', sizeof piece);
    for (size_t n = 0; n <= MCP_LINE_MAX; n += sizeof piece) {
        assert_ok(mcp_lines_feed(&l, (struct sv){piece, sizeof piece}, note, &got, &err), &err);
    }
    assert_int_equal(l.held.len, 0); /* Nothing is kept of it. */
    assert_ok(mcp_lines_feed(&l, SV("yyy\n{}\n"), note, &got, &err), &err);
    mcp_lines_end(&l, note, &got);
    assert_string_equal(buf_cstr(&got), "![{}]");
    mcp_lines_deinit(&l);
}

static void a_line_of_the_greatest_length_is_whole(void **state) {
    (void)state;
    struct mcp_lines l = {0};
    struct buf line = {0};
    AUTO_BUF struct buf got = {0};
    struct err err = {0};
    assert_int_equal(buf_reserve(&line, MCP_LINE_MAX + 1), 0);
    memset(line.data, 'x', MCP_LINE_MAX);
    line.data[MCP_LINE_MAX] = '\n';
    assert_ok(mcp_lines_feed(&l, (struct sv){line.data, 1000}, note, &got, &err), &err);
    assert_ok(mcp_lines_feed(&l, (struct sv){line.data + 1000, MCP_LINE_MAX + 1 - 1000}, note, &got,
                             &err),
              &err);
    assert_int_equal(got.len, MCP_LINE_MAX + 2);
    mcp_lines_deinit(&l);
    buf_deinit(&line);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lines_are_the_same_however_the_stream_is_cut),
    cmocka_unit_test(a_line_that_is_too_long_is_told_once_and_the_next_is_read),
    cmocka_unit_test(a_line_of_the_greatest_length_is_whole),
};

RUN_TESTS(tests)
