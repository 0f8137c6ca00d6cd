/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAM "{\"model\":\"m\",\"stream\":true}"
#define WHOLE "{\"model\":\"m\"}"
#define TEXT                                                                                       \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":[1]}]}\n\n"

enum phase { BEFORE_HEAD, MID_STREAM, MID_WHOLE };

struct leaver {
    enum phase phase;
    atomic_bool reached;
    atomic_bool saw_end;
};

static void answer_and_watch(struct engine_request *r, void *arg) {
    struct leaver *l = arg;
    if (l->phase == MID_STREAM) {
        engine_sse_head(r);
        engine_chunk(r, SV(TEXT));
    } else if (l->phase == MID_WHOLE) {
        engine_puts(r, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                       "Content-Length: 1000\r\n\r\n{\"choices\":");
    }
    l->reached = true;
    l->saw_end = engine_peer_left(r, 3000);
    r->close = true;
}

static void leave(enum phase phase, bool half_close) {
    struct leaver l = {.phase = phase};
    struct fixture f;
    fixture_open(&f, answer_and_watch, &l, NULL);
    struct agent a = agent_connect_tcp(f.port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session),
               phase == MID_STREAM ? SV(STREAM) : SV(WHOLE));
    if (phase == MID_STREAM) {
        struct answer r = agent_read_until(&a, "\"a\"");
        answer_deinit(&r);
    }
    while (!l.reached) {
        clock_sleep_ms(1);
    }
    int64_t left_at = clock_ms();
    if (half_close) {
        shutdown(a.fd, SHUT_WR);
    } else {
        agent_close(&a);
    }
    fixture_await_result(&f, 1);
    assert_true(clock_ms() - left_at < 1000);
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "end"), "client_abort");
    if (phase == MID_STREAM) {
        assert_bytes(&r.ids, SV("[1]"));
    }
    recorded_deinit(&r);
    if (half_close) {
        agent_close(&a);
    }
    fixture_close(&f);
    assert_true(l.saw_end);
}

static void an_agent_that_leaves_before_the_answer_ends_the_generation(void **state) {
    (void)state;
    leave(BEFORE_HEAD, false);
    leave(BEFORE_HEAD, true);
}

static void an_agent_that_leaves_in_the_stream_ends_the_generation(void **state) {
    (void)state;
    leave(MID_STREAM, false);
    leave(MID_STREAM, true);
}

static void an_agent_that_leaves_a_whole_answer_ends_the_generation(void **state) {
    (void)state;
    leave(MID_WHOLE, false);
}

struct cut {
    const char *bytes;
    bool reset;
};

static void answer_and_cut(struct engine_request *r, void *arg) {
    const struct cut *c = arg;
    engine_puts(r, c->bytes);
    r->close = true;
    r->reset = c->reset;
    if (c->reset) {
        clock_sleep_ms(30); /* Else the reset may overtake the bytes. */
    }
}

#define SSE_CHUNKED                                                                                \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#define SSE_BY_CLOSE "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

static void an_engine_that_breaks_off_a_stream_never_looks_finished(void **state) {
    static const struct cut cuts[] = {
        {SSE_CHUNKED "49\r\n" TEXT "\r\n", false},         /* Between chunks. */
        {SSE_CHUNKED "49\r\n" TEXT "\r\n", true},          /* By a reset. */
        {SSE_CHUNKED "ff\r\n" TEXT "data: {\"cho", false}, /* In an event. */
        {SSE_BY_CLOSE TEXT "data: {\"choices\"", false},   {SSE_BY_CLOSE TEXT, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct fixture f;
        fixture_open(&f, answer_and_cut, (void *)(uintptr_t)&cuts[i], NULL);
        struct answer a = fixture_call(&f, STREAM);
        assert_int_equal(a.status, 200);
        assert_false(a.has_end);
        assert_non_null(strstr(buf_cstr(&a.body), "\"content\":\"a\""));
        assert_non_null(strstr(buf_cstr(&a.body), "data: {\"error\":{\"message\":"));
        assert_null(strstr(buf_cstr(&a.body), "\"cho\n"));
        struct recorded r = fixture_read(&f, 1);
        assert_string_equal(text_of(r.result, "end"), "upstream_abort");
        assert_bytes(&r.ids, SV("[1]"));
        assert_true(strlen(text_of(r.result, "upstream_error")) > 0);
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
    }
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

static void an_engine_that_breaks_off_a_whole_answer_never_looks_finished(void **state) {
    static const struct cut short_length = {
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"cho",
        false};
    struct fixture f;
    (void)state;
    /* Passed on as it comes: the agent sees the same cut. */
    fixture_open(&f, answer_and_cut, (void *)(uintptr_t)&short_length, without_edits);
    struct answer a = fixture_call(&f, WHOLE);
    assert_int_equal(a.status, 200);
    assert_false(a.has_end);
    answer_deinit(&a);
    fixture_close(&f);
    /* Collected: the agent has seen nothing yet, and gets an error. */
    fixture_open(&f, answer_and_cut, (void *)(uintptr_t)&short_length, NULL);
    a = fixture_call(&f, WHOLE);
    assert_int_equal(a.status, 502);
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "end"), "upstream_abort");
    assert_int_equal(json_integer_value(json_object_get(r.result, "status")), 502);
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
}

static void to_nowhere(struct gateway_session_options *o) {
    o->upstream_url = "http://127.0.0.1:1/v1"; /* tcpmux: nobody listens there. */
}

static void an_engine_that_cannot_be_reached_is_an_error_and_counted(void **state) {
    struct gateway_session_stats stats;
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_and_cut, NULL, to_nowhere);
    for (int i = 0; i < 3; i++) {
        struct answer a = fixture_call(&f, STREAM);
        assert_int_equal(a.status, 502);
        assert_non_null(strstr(buf_cstr(&a.body), "{\"error\":{\"message\":\""));
        answer_deinit(&a);
    }
    gateway_session_stats(f.session, &stats);
    assert_int_equal(stats.calls, 3);
    assert_int_equal(stats.calls_ended, 3);
    assert_int_equal(stats.failed_in_a_row, 3);
    assert_false(stats.capture_fault);
    struct recorded r = fixture_read(&f, 3);
    assert_string_equal(text_of(r.result, "end"), "error");
    assert_non_null(strstr(text_of(r.result, "upstream_error"), "127.0.0.1"));
    recorded_deinit(&r);
    fixture_close(&f);
}

static void short_patience(struct gateway_session_options *o) {
    o->header_timeout_s = 0.2;
}

static void an_engine_that_says_nothing_is_left_when_a_limit_is_set(void **state) {
    struct leaver l = {.phase = BEFORE_HEAD};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_and_watch, &l, short_patience);
    struct answer a = fixture_call(&f, STREAM);
    assert_int_equal(a.status, 504);
    answer_deinit(&a);
    fixture_close(&f);
    assert_true(l.saw_end);
}

static void closing_the_session_aborts_what_is_open(void **state) {
    struct leaver l = {.phase = MID_STREAM};
    struct fixture f;
    struct err e = {0};
    (void)state;
    fixture_open(&f, answer_and_watch, &l, NULL);
    struct agent a = agent_connect_unix(f.unix_path);
    agent_post(&a, "/v1/chat/completions", NULL, SV(STREAM));
    struct answer r = agent_read_until(&a, "\"a\"");
    assert_ok(gateway_session_close(f.session, deadline_in_ms(50), &e), &e);
    f.session = NULL;
    struct recorded rec = fixture_read(&f, 1);
    assert_string_equal(text_of(rec.result, "end"), "client_abort");
    assert_int_not_equal(access(f.unix_path, F_OK), 0);
    recorded_deinit(&rec);
    answer_deinit(&r);
    agent_close(&a);
    fixture_close(&f);
    assert_true(l.saw_end);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_that_leaves_before_the_answer_ends_the_generation),
        cmocka_unit_test(an_agent_that_leaves_in_the_stream_ends_the_generation),
        cmocka_unit_test(an_agent_that_leaves_a_whole_answer_ends_the_generation),
        cmocka_unit_test(an_engine_that_breaks_off_a_stream_never_looks_finished),
        cmocka_unit_test(an_engine_that_breaks_off_a_whole_answer_never_looks_finished),
        cmocka_unit_test(an_engine_that_cannot_be_reached_is_an_error_and_counted),
        cmocka_unit_test(an_engine_that_says_nothing_is_left_when_a_limit_is_set),
        cmocka_unit_test(closing_the_session_aborts_what_is_open),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
