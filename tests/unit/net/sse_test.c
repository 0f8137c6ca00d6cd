/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/sse.h"

#include "tests/testing.h"

struct want {
    const char *raw;
    const char *data; /* NULL: the event has none. */
    const char *type;
    bool cut; /* Ended by the stream's end. */
};

static void check(const struct sse_event *e, const struct want *w) {
    if (!w->raw) {
        fail_msg("an event too many: '%.*s'", SV_ARG(e->raw));
    }
    if (!sv_eq(e->raw, sv_from(w->raw)) || e->has_data != (w->data != NULL) ||
        !sv_eq(e->data, sv_from(w->data)) || !sv_eq(e->type, sv_from(w->type)) ||
        e->whole == w->cut) {
        fail_msg("want '%s' data '%s', got '%.*s' data '%.*s' whole %d", w->raw,
                 w->data ? w->data : "-", SV_ARG(e->raw), SV_ARG(e->data), e->whole);
    }
}

static void run(struct sse *s, const char *text, size_t first, size_t step, const struct want *w) {
    struct sse_event e;
    struct err err = {0};
    struct sv in = sv_from(text);
    size_t n = first;
    for (; in.n > 0; n = step) {
        struct sv piece = {in.p, in.n < n ? in.n : n};
        in = sv_cut(in, piece.n);
        size_t used = 0;
        while (sse_feed(s, piece, &used, &e, &err) > 0) {
            check(&e, w++);
            piece = sv_cut(piece, used);
        }
        assert_int_equal(used, piece.n);
    }
    if (sse_finish(s, &e, &err) > 0) {
        check(&e, w++);
    }
    assert_null(w->raw);
    assert_int_equal(sse_held(s), 0);
}

/* Whole, byte by byte, and in two pieces cut at every byte. */
static void expect(const char *text, const struct want *w) {
    struct sse s = {0};
    size_t n = strlen(text);
    for (size_t cut = 1; cut <= n; cut++) {
        run(&s, text, cut, n, w);
        sse_reset(&s);
    }
    run(&s, text, 1, 1, w);
    sse_deinit(&s);
}

#define WANT(...) ((const struct want[]){__VA_ARGS__, {0}})

static void lines_may_end_in_lf(void **state) {
    (void)state;
    expect("data: a\n\ndata: b\n\n", WANT({"data: a\n\n", "a"}, {"data: b\n\n", "b"}));
}

static void lines_may_end_in_crlf(void **state) {
    (void)state;
    expect("data: a\r\n\r\ndata: b\r\n\r\n",
           WANT({"data: a\r\n\r\n", "a"}, {"data: b\r\n\r\n", "b"}));
}

static void lines_may_end_in_a_lone_cr(void **state) {
    (void)state;
    expect("data: a\r\rdata: b\rdata: c\r\r",
           WANT({"data: a\r\r", "a"}, {"data: b\rdata: c\r\r", "b\nc"}));
}

static void a_lone_cr_event_is_given_without_waiting_for_the_next_byte(void **state) {
    (void)state;
    struct sse s = {0};
    struct sse_event e;
    size_t used = 0;
    assert_int_equal(sse_feed(&s, SV("data: [DONE]\r\r"), &used, &e, NULL), 1);
    assert_true(sv_eq(e.data, SV("[DONE]")));
    sse_deinit(&s);
}

static void line_ends_may_be_mixed(void **state) {
    (void)state;
    expect("data: a\n\r\ndata: b\r\n\ndata: c\r\n\rdata: d\n\n",
           WANT({"data: a\n\r", "a"}, {"\ndata: b\r\n\n", "b"}, {"data: c\r\n\r", "c"},
                {"data: d\n\n", "d"}));
}

static void comments_are_kept_and_are_no_events_of_their_own(void **state) {
    (void)state;
    expect(
        ": ping\n\n:\n\n: OPENROUTER PROCESSING\ndata: a\n\n",
        WANT({": ping\n\n", NULL}, {":\n\n", NULL}, {": OPENROUTER PROCESSING\ndata: a\n\n", "a"}));
}

static void one_blank_after_the_colon_is_dropped_and_none_is_needed(void **state) {
    (void)state;
    expect("data:a\n\ndata:  a\n\ndata\n\ndata:\n\n",
           WANT({"data:a\n\n", "a"}, {"data:  a\n\n", " a"}, {"data\n\n", ""}, {"data:\n\n", ""}));
}

static void several_data_lines_are_joined_by_lf(void **state) {
    (void)state;
    expect("data: a\ndata:\ndata: b\n\ndata: c\n\n",
           WANT({"data: a\ndata:\ndata: b\n\n", "a\n\nb"}, {"data: c\n\n", "c"}));
}

static void event_id_and_retry_are_read(void **state) {
    (void)state;
    expect("event: message_start\ndata: {}\n\n",
           WANT({"event: message_start\ndata: {}\n\n", "{}", "message_start"}));
    struct sse s = {0};
    struct sse_event e;
    size_t used = 0;
    assert_int_equal(sse_feed(&s, SV("id: 7\nretry: 250\nother: x\n\n"), &used, &e, NULL), 1);
    assert_true(e.has_id && sv_eq(e.id, SV("7")));
    assert_int_equal(e.retry_ms, 250);
    assert_false(e.has_data);
    assert_int_equal(sse_feed(&s, SV("id: a\0b\nretry: 2x\n\n"), &used, &e, NULL), 1);
    assert_false(e.has_id);
    assert_int_equal(e.retry_ms, -1);
    sse_deinit(&s);
}

static void a_byte_order_mark_is_passed_over_at_the_start_only(void **state) {
    (void)state;
    expect("\xef\xbb\xbf"
           "data: a\n\n\xef\xbb\xbf"
           "data: b\n\n",
           WANT({"\xef\xbb\xbf"
                 "data: a\n\n",
                 "a"},
                {"\xef\xbb\xbf"
                 "data: b\n\n",
                 NULL}));
}

static void an_event_split_inside_a_utf8_sequence_is_whole_again(void **state) {
    (void)state;
    expect("data: \xf0\x9f\x98\x80\n\n", WANT({"data: \xf0\x9f\x98\x80\n\n", "\xf0\x9f\x98\x80"}));
}

static void unicode_line_separators_end_no_line(void **state) {
    (void)state;
    /* U+2028, U+2029, U+0085, VT, FF. */
    expect("data: a\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\v\fb\n\n",
           WANT({"data: a\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\v\fb\n\n",
                 "a\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\v\fb"}));
}

static void several_events_of_one_read_are_all_given(void **state) {
    (void)state;
    expect("data: 1\n\ndata: 2\n\ndata: 3\n\ndata: [DONE]\n\n",
           WANT({"data: 1\n\n", "1"}, {"data: 2\n\n", "2"}, {"data: 3\n\n", "3"},
                {"data: [DONE]\n\n", "[DONE]"}));
}

static void the_last_event_without_blank_line_is_given_at_the_end(void **state) {
    (void)state;
    expect("data: a\n\ndata: [DONE]",
           WANT({"data: a\n\n", "a"}, {"data: [DONE]", "[DONE]", NULL, true}));
    expect("data: [DONE]\n", WANT({"data: [DONE]\n", "[DONE]", NULL, true}));
    expect("data: [DONE]\r\n", WANT({"data: [DONE]\r\n", "[DONE]", NULL, true}));
}

static void an_error_object_is_data_like_any(void **state) {
    (void)state;
    expect("data: {\"error\":{\"message\":\"x\"}}\n\n",
           WANT({"data: {\"error\":{\"message\":\"x\"}}\n\n", "{\"error\":{\"message\":\"x\"}}"}));
}

static void stray_blank_lines_are_passed_through(void **state) {
    (void)state;
    expect("\n\ndata: a\n\n\n",
           WANT({"\n", NULL}, {"\n", NULL}, {"data: a\n\n", "a"}, {"\n", NULL}));
}

static void a_whole_event_is_given_in_place(void **state) {
    (void)state;
    static const char text[] = "data: abc\n\ndata: d";
    struct sse s = {0};
    struct sse_event e;
    size_t used = 0;
    assert_int_equal(sse_feed(&s, sv_from(text), &used, &e, NULL), 1);
    assert_ptr_equal(e.raw.p, text);
    assert_ptr_equal(e.data.p, text + 6);
    assert_int_equal(sse_feed(&s, sv_from(text + used), &used, &e, NULL), 0);
    assert_int_equal(sse_held(&s), 7);
    sse_deinit(&s);
}

static void a_very_long_event_in_many_reads_is_whole(void **state) {
    (void)state;
    enum { SIZE = 5 * 1024 * 1024, READ = 65536 };
    char *text = malloc(SIZE + 10);
    assert_non_null(text);
    memset(text, 'x', SIZE + 8);
    memcpy(text, "data: ", 6);
    memcpy(text + SIZE + 8, "\n\n", 2);
    struct sse s = {0};
    struct sse_event e;
    size_t used = 0;
    int r = 0;
    for (struct sv in = {text, SIZE + 10}; in.n > 0; in = sv_cut(in, used)) {
        r = sse_feed(&s, (struct sv){in.p, in.n < READ ? in.n : READ}, &used, &e, NULL);
    }
    assert_int_equal(r, 1);
    assert_int_equal(e.data.n, SIZE + 2);
    sse_deinit(&s);
    free(text);
}

static void an_event_over_the_limit_is_refused_wherever_it_is_cut(void **state) {
    (void)state;
    for (size_t step = 1; step < 20; step++) {
        struct sse s = {.event_max = 12};
        struct sse_event e;
        struct err err = {0};
        size_t used = 0;
        int given = 0;
        int r = 0;
        for (struct sv in = SV("data: 1234\n\ndata: 12345\n\n"); in.n > 0 && r >= 0;
             in = sv_cut(in, used)) {
            r = sse_feed(&s, (struct sv){in.p, in.n < step ? in.n : step}, &used, &e, &err);
            given += r > 0;
        }
        assert_int_equal(given, 1);
        assert_int_equal(r, ERR_LIMIT);
        assert_non_null(strstr(err.msg, "larger than 12 bytes"));
        sse_deinit(&s);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(lines_may_end_in_lf),
    cmocka_unit_test(lines_may_end_in_crlf),
    cmocka_unit_test(lines_may_end_in_a_lone_cr),
    cmocka_unit_test(a_lone_cr_event_is_given_without_waiting_for_the_next_byte),
    cmocka_unit_test(line_ends_may_be_mixed),
    cmocka_unit_test(comments_are_kept_and_are_no_events_of_their_own),
    cmocka_unit_test(one_blank_after_the_colon_is_dropped_and_none_is_needed),
    cmocka_unit_test(several_data_lines_are_joined_by_lf),
    cmocka_unit_test(event_id_and_retry_are_read),
    cmocka_unit_test(a_byte_order_mark_is_passed_over_at_the_start_only),
    cmocka_unit_test(an_event_split_inside_a_utf8_sequence_is_whole_again),
    cmocka_unit_test(unicode_line_separators_end_no_line),
    cmocka_unit_test(several_events_of_one_read_are_all_given),
    cmocka_unit_test(the_last_event_without_blank_line_is_given_at_the_end),
    cmocka_unit_test(an_error_object_is_data_like_any),
    cmocka_unit_test(stray_blank_lines_are_passed_through),
    cmocka_unit_test(a_whole_event_is_given_in_place),
    cmocka_unit_test(a_very_long_event_in_many_reads_is_whole),
    cmocka_unit_test(an_event_over_the_limit_is_refused_wherever_it_is_cut),
};

RUN_TESTS(tests)
