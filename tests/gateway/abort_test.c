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

#define FINISH "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
/* A loaded machine may be late; it is not each time. */
#define TRIES 5

enum phase { BEFORE_HEAD, MID_STREAM, MID_WHOLE, WHILE_HELD, WHILE_FULL, PHASES };
enum leaving { BY_CLOSE, BY_HALF_CLOSE, BY_RESET, LEAVINGS };

struct leaver {
    enum phase phase;
    atomic_bool reached;
    atomic_bool saw_end;
    atomic_llong left_ms, seen_ms;
};

/* Until the gateway takes no more. */
static void flood(struct engine_request *r) {
    static const char event[] =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
        "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}}]}\n\n";
    AUTO_BUF struct buf b = {0};
    struct timeval wait = {.tv_usec = 300000};
    setsockopt(r->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(buf_adds(&b, event), 0);
    }
    while (engine_chunk(r, buf_sv(&b))) {
    }
}

static void answer_and_watch(struct engine_request *r, void *arg) {
    struct leaver *l = arg;
    if (l->phase == MID_WHOLE) {
        engine_puts(r, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                       "Content-Length: 1000\r\n\r\n{\"choices\":");
    } else if (l->phase != BEFORE_HEAD) {
        engine_sse_head(r);
        engine_chunk(r, SV(TEXT));
    }
    if (l->phase == WHILE_HELD) {
        engine_chunk(r, SV(FINISH));
    } else if (l->phase == WHILE_FULL) {
        flood(r);
    }
    l->reached = true;
    l->saw_end = engine_peer_left(r, 3000);
    l->seen_ms = clock_ms();
    r->close = true;
}

static void go(struct agent *a, enum leaving how) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (how == BY_HALF_CLOSE) {
        shutdown(a->fd, SHUT_WR);
        return;
    }
    if (how == BY_RESET) {
        setsockopt(a->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    agent_close(a);
}

static void check_left(struct fixture *f, enum phase phase) {
    struct recorded r = fixture_read(f, 1);
    assert_string_equal(text_of(r.result, "end"), "client_abort");
    assert_int_equal(r.results, 1);
    if (phase != BEFORE_HEAD && phase != MID_WHOLE) {
        assert_bytes(&r.ids, SV("[1]"));
        assert_non_null(strstr(buf_cstr(&r.response), "\"content\":\"a"));
    }
    recorded_deinit(&r);
}

/* How long after its leaving the engine saw the end. */
static int64_t leave(enum phase phase, enum leaving how) {
    struct leaver l = {.phase = phase};
    struct fixture f;
    bool streams = phase != BEFORE_HEAD && phase != MID_WHOLE;
    fixture_open(&f, answer_and_watch, &l, NULL);
    struct agent a = agent_connect_tcp(f.port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session),
               streams ? SV(STREAM) : SV(WHOLE));
    if (streams) {
        struct answer r = agent_read_until(&a, "\"a\"");
        answer_deinit(&r);
    }
    while (!l.reached) {
        clock_sleep_ms(1);
    }
    l.left_ms = clock_ms();
    go(&a, how);
    fixture_await_result(&f, 1);
    check_left(&f, phase);
    if (how == BY_HALF_CLOSE) {
        agent_close(&a);
    }
    fixture_close(&f);
    assert_true(l.saw_end);
    return l.seen_ms - l.left_ms;
}

static void an_agent_that_leaves_in_any_phase_ends_the_generation_within_100_ms(void **state) {
    (void)state;
    for (int phase = 0; phase < PHASES; phase++) {
        for (int how = 0; how < LEAVINGS; how++) {
            int64_t best = INT64_MAX;
            for (int i = 0; i < TRIES && best >= 100; i++) {
                int64_t ms = leave((enum phase)phase, (enum leaving)how);
                best = ms < best ? ms : best;
            }
            if (best >= 100) {
                fail_msg("phase %d, leaving %d: %lld ms", phase, how, (long long)best);
            }
        }
    }
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
#define SSE_LENGTH                                                                                 \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 900\r\n\r\n"
#define SSE_BY_CLOSE "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

static void an_engine_that_breaks_off_a_stream_never_looks_finished(void **state) {
    static const struct cut cuts[] = {
        {SSE_CHUNKED "49\r\n" TEXT "\r\n", false},         /* Between chunks. */
        {SSE_CHUNKED "49\r\n" TEXT "\r\n", true},          /* By a reset. */
        {SSE_CHUNKED "ff\r\n" TEXT "data: {\"cho", false}, /* In an event. */
        {SSE_CHUNKED "ff\r\n" TEXT "data: {\"cho", true},  /* In an event, by a reset. */
        {SSE_CHUNKED "49\r\n" TEXT "\r\n0\r\n", false},    /* Before the body's last bytes. */
        {SSE_LENGTH TEXT, false},                          /* Short of its length. */
        {SSE_LENGTH TEXT, true},
        {SSE_BY_CLOSE TEXT, true},
        {SSE_BY_CLOSE TEXT "data: {\"choices\"", false},
        {SSE_BY_CLOSE TEXT, false},
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

static void without_edits_a_stream_that_breaks_off_never_looks_finished(void **state) {
    static const struct cut cuts[] = {
        {SSE_CHUNKED "49\r\n" TEXT "\r\n", false},
        {SSE_CHUNKED "49\r\n" TEXT "\r\n", true},
        {SSE_CHUNKED "ff\r\n" TEXT, false},
        {SSE_LENGTH TEXT, false},
        {SSE_LENGTH TEXT, true},
        {SSE_BY_CLOSE TEXT, false},
        {SSE_BY_CLOSE TEXT, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct fixture f;
        fixture_open(&f, answer_and_cut, (void *)(uintptr_t)&cuts[i], without_edits);
        struct answer a = fixture_call(&f, STREAM);
        assert_int_equal(a.status, 200);
        assert_false(a.has_end);
        assert_true(sv_starts_with(buf_sv(&a.body), SV(TEXT)));
        struct recorded r = fixture_read(&f, 1);
        assert_string_equal(text_of(r.result, "end"), "upstream_abort");
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
    }
}

#define JSON_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

static void an_engine_that_breaks_off_a_whole_answer_never_looks_finished(void **state) {
    static const struct cut cuts[] = {
        {JSON_HEAD "Content-Length: 50\r\n\r\n{\"cho", false},
        {JSON_HEAD "Content-Length: 50\r\n\r\n{\"cho", true},
        {JSON_HEAD "Content-Length: 50\r\n\r\n", false},
        {JSON_HEAD "Transfer-Encoding: chunked\r\n\r\n10\r\n{\"cho", false},
        {JSON_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"cho\r\n", true},
        {JSON_HEAD "Transfer-Encoding: chunked\r\n\r\nE\r\n{\"choices\":[]}\r\n", false},
        {JSON_HEAD "\r\n{\"choices\":[]}", true},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof cuts / sizeof cuts[0]; i++) {
        struct fixture f;
        fixture_open(&f, answer_and_cut, (void *)(uintptr_t)&cuts[i / 2],
                     i % 2 ? without_edits : NULL);
        struct answer a = fixture_call(&f, WHOLE);
        struct recorded r = fixture_read(&f, 1);
        assert_string_equal(text_of(r.result, "end"), "upstream_abort");
        if (i % 2) { /* Passed on as it comes: the agent sees the same cut. */
            assert_int_equal(a.status, 200);
            assert_false(a.has_end);
        } else { /* Collected: the agent has seen nothing yet, and gets an error. */
            assert_int_equal(a.status, 502);
            assert_int_equal(json_integer_value(json_object_get(r.result, "status")), 502);
        }
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
    }
}

#define STALL_MS 1500

/* Silent before the head, in the stream, and again; then it goes on, or dies. */
static void answer_with_stalls(struct engine_request *r, void *arg) {
    clock_sleep_ms(STALL_MS);
    engine_sse_head(r);
    engine_chunk(r, SV(TEXT));
    clock_sleep_ms(STALL_MS);
    if (*(bool *)arg) {
        r->close = r->reset = true;
        return;
    }
    engine_chunk(r, SV(FINISH "data: [DONE]\n\n"));
    engine_puts(r, "0\r\n\r\n");
}

static void a_silent_engine_is_waited_for_and_its_death_is_no_clean_end(void **state) {
    static bool dies[] = {false, true};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        fixture_open(&f, answer_with_stalls, &dies[i], NULL);
        struct answer a = fixture_call(&f, STREAM);
        struct recorded r = fixture_read(&f, 1);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.has_end, !dies[i]);
        assert_string_equal(text_of(r.result, "end"), dies[i] ? "upstream_abort" : "complete");
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
    }
}

static bool is_probed(int fd, uint16_t port) {
    struct sockaddr_in peer = {0};
    socklen_t n = sizeof peer;
    int on = 0;
    socklen_t on_n = sizeof on;
    return getpeername(fd, (struct sockaddr *)&peer, &n) == 0 && peer.sin_family == AF_INET &&
           ntohs(peer.sin_port) == port &&
           getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &on_n) == 0 && on;
}

/* A machine that is gone sends neither FIN nor reset: only probes tell. */
static void an_engine_s_machine_is_asked_whether_it_is_still_there(void **state) {
    struct leaver l = {.phase = BEFORE_HEAD};
    struct fixture f;
    unsigned probed = 0;
    (void)state;
    fixture_open(&f, answer_and_watch, &l, NULL);
    struct agent a = agent_connect_tcp(f.port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session), SV(WHOLE));
    while (!l.reached) {
        clock_sleep_ms(1);
    }
    uint16_t port = (uint16_t)strtol(strrchr(engine_url(f.engine), ':') + 1, NULL, 10);
    for (int fd = 3; fd < 256; fd++) {
        probed += is_probed(fd, port);
    }
    assert_int_equal(probed, 1);
    agent_close(&a);
    fixture_await_result(&f, 1);
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
        cmocka_unit_test(an_agent_that_leaves_in_any_phase_ends_the_generation_within_100_ms),
        cmocka_unit_test(an_engine_that_breaks_off_a_stream_never_looks_finished),
        cmocka_unit_test(without_edits_a_stream_that_breaks_off_never_looks_finished),
        cmocka_unit_test(a_silent_engine_is_waited_for_and_its_death_is_no_clean_end),
        cmocka_unit_test(an_engine_s_machine_is_asked_whether_it_is_still_there),
        cmocka_unit_test(an_engine_that_breaks_off_a_whole_answer_never_looks_finished),
        cmocka_unit_test(an_engine_that_cannot_be_reached_is_an_error_and_counted),
        cmocka_unit_test(an_engine_that_says_nothing_is_left_when_a_limit_is_set),
        cmocka_unit_test(closing_the_session_aborts_what_is_open),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
