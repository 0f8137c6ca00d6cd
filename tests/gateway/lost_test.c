/* SPDX-License-Identifier: BSD-3-Clause */
/* No end reaches the agent that the journal does not have. */
#include "disk.h"
#include "fixture.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define STREAM "{\"model\":\"m\",\"stream\":true}"
#define UNARY "{\"model\":\"m\"}"
#define TEXT                                                                                       \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":[1]}]}\n\n"
#define FINISH                                                                                     \
    "data: "                                                                                       \
    "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":[2]}]}\n\n"
#define DONE "data: [DONE]\n\n"
#define WHOLE                                                                                      \
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}"

/* What the engine does before it answers. */
static void (*before_answer)(void);

static void answer(struct engine_request *r, void *arg) {
    (void)arg;
    bool is_stream = sv_find(r->body, SV("\"stream\":true")) != (size_t)-1;
    if (before_answer) {
        before_answer();
    }
    if (is_stream) {
        engine_sse_head(r);
        engine_chunk(r, SV(TEXT));
        clock_sleep_ms(20);
        engine_chunk(r, SV(FINISH DONE));
        engine_puts(r, "0\r\n\r\n");
    } else if (r->number == 1 && sv_find(r->body, SV("refuse-me")) != (size_t)-1) {
        engine_json(r, 429, "{\"error\":\"later\"}");
    } else {
        engine_json(r, 200, WHOLE);
    }
}

static unsigned long long lost(struct fixture *f) {
    struct gateway_stats all;
    gateway_stats(f->gateway, &all);
    assert_int_equal(all.calls_open, 0);
    assert_int_equal(all.calls, all.calls_stored + all.calls_lost);
    return all.calls_lost;
}

static void check_unary_lost(const struct answer *a) {
    assert_int_equal(a->status, 507);
    assert_true(a->has_end);
    assert_non_null(strstr(buf_cstr(&a->body), "\"code\":\"FULL\""));
    assert_non_null(strstr(buf_cstr(&a->body), "can't be recorded"));
    assert_null(strstr(buf_cstr(&a->body), "choices"));
}

static void check_stream_lost(const struct answer *a) {
    assert_int_equal(a->status, 200);
    assert_false(a->has_end);
    assert_non_null(strstr(buf_cstr(&a->body), "\"content\":\"a\""));
    assert_null(strstr(buf_cstr(&a->body), "stop"));
    assert_null(strstr(buf_cstr(&a->body), "[DONE]"));
    assert_non_null(strstr(buf_cstr(&a->body), "\"code\":\"capture_fault\"}}\n\n"));
}

/* The call before was lost; the disk is good again; this one is whole. */
static void check_next_call(struct fixture *f, const char *body, uint64_t call) {
    struct gateway_session_stats stats;
    assert_int_equal(lost(f), call - 1);
    gateway_session_stats(f->session, &stats);
    assert_true(stats.capture_fault);
    assert_int_equal(stats.calls_open, 0);
    assert_int_equal(stats.failed_in_a_row, 0); /* The engine did answer. */
    clock_sleep_ms(1100);                       /* A second after a failure it is tried again. */
    struct answer a = fixture_call(f, body);
    assert_int_equal(a.status, 200);
    assert_true(a.has_end);
    answer_deinit(&a);
    assert_int_equal(lost(f), call - 1);
    struct recorded r = fixture_read(f, call);
    assert_int_equal(r.intents, 1);
    assert_int_equal(r.results, 1);
    recorded_deinit(&r);
}

static void check_open(struct fixture *f, uint64_t call) {
    struct recorded r = fixture_read(f, call);
    assert_int_equal(r.intents, 1);
    assert_int_equal(r.results, 0);
    recorded_deinit(&r);
}

/* Two calls whose results can't be written, one of each kind. `break_disk` lets the intent pass. */
static void check_loses(struct fixture *f, void (*break_disk)(void), bool is_open_after) {
    break_disk();
    struct answer a = fixture_call(f, UNARY);
    disk_heal();
    check_unary_lost(&a);
    answer_deinit(&a);
    if (is_open_after) {
        check_open(f, 1);
    }
    check_next_call(f, UNARY, 2);
    break_disk();
    a = fixture_call(f, STREAM);
    disk_heal();
    check_stream_lost(&a);
    answer_deinit(&a);
    if (is_open_after) {
        check_open(f, 3);
    }
    assert_int_equal(lost(f), 2);
    clock_sleep_ms(1100);
    a = fixture_call(f, STREAM);
    assert_true(a.has_end);
    answer_deinit(&a);
    assert_int_equal(lost(f), 2);
    struct recorded r = fixture_read(f, 4);
    assert_int_equal(r.results, 1);
    recorded_deinit(&r);
}

static void fail_result(void) {
    disk_fail_writes(1, /* is_short= */ false, EIO);
}

static void fill_at_result(void) {
    disk_fail_writes(1, /* is_short= */ true, ENOSPC);
}

static void fail_result_sync(void) {
    disk_fail_syncs(1, EIO);
}

static void no_end_comes_when_the_result_cannot_be_written(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer, NULL, NULL);
    check_loses(&f, fail_result, /* is_open_after= */ true);
    fixture_close(&f);
}

static void no_end_comes_when_the_result_is_written_in_part(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer, NULL, NULL);
    check_loses(&f, fill_at_result, /* is_open_after= */ true);
    fixture_close(&f);
}

/* The record may stand in the file all the same: the other way round is what must not be. */
static void no_end_comes_when_a_durable_result_cannot_be_synced(void **state) {
    struct fixture f;
    (void)state;
    fixture_open_durable(&f, answer, NULL);
    check_loses(&f, fail_result_sync, /* is_open_after= */ false);
    fixture_close(&f);
}

static struct rlimit was;

static void fill_disk(void) {
    struct rlimit none = {.rlim_cur = 1, .rlim_max = was.rlim_max};
    (void)setrlimit(RLIMIT_FSIZE, &none);
}

static void no_end_comes_when_the_disk_is_full_by_then(void **state) {
    static const char *const bodies[] = {UNARY, STREAM};
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    before_answer = fill_disk;
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        fixture_open(&f, answer, NULL, NULL);
        struct answer a = fixture_call(&f, bodies[i]);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        (i == 0 ? check_unary_lost : check_stream_lost)(&a);
        answer_deinit(&a);
        check_open(&f, 1);
        assert_int_equal(lost(&f), 1);
        clock_sleep_ms(1100);
        fixture_close(&f);
    }
    before_answer = NULL;
}

/* An error is an end too. */
static void a_refusal_that_cannot_be_recorded_is_cut(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer, NULL, NULL);
    fail_result();
    struct answer a = fixture_call(&f, "{\"model\":\"refuse-me\"}");
    disk_heal();
    assert_false(a.has_end);
    answer_deinit(&a);
    check_open(&f, 1);
    check_next_call(&f, UNARY, 2);
    fixture_close(&f);
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

/* All but its last byte is with the agent already. */
static void an_answer_that_is_passed_on_is_cut(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer, NULL, without_edits);
    fail_result();
    struct answer a = fixture_call(&f, UNARY);
    disk_heal();
    assert_int_equal(a.status, 200);
    assert_false(a.has_end);
    assert_bytes(&a.body, ((struct sv){WHOLE, sizeof WHOLE - 2}));
    answer_deinit(&a);
    check_next_call(&f, UNARY, 2);
    fixture_close(&f);
}

/* [DONE] comes after the time limit, when the result was written without the tail. */
static void answer_late(struct engine_request *r, void *arg) {
    (void)arg;
    engine_sse_head(r);
    engine_chunk(r, SV(TEXT FINISH));
    clock_sleep_ms(1300);
    engine_chunk(r, SV(DONE));
    engine_puts(r, "0\r\n\r\n");
}

static void a_stream_whose_tail_cannot_be_written_is_cut(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_late, NULL, NULL);
    disk_fail_writes(2, /* is_short= */ false, EIO);
    struct answer a = fixture_call(&f, STREAM);
    disk_heal();
    assert_false(a.has_end);
    assert_non_null(strstr(buf_cstr(&a.body), "stop"));
    assert_null(strstr(buf_cstr(&a.body), "[DONE]"));
    assert_non_null(strstr(buf_cstr(&a.body), "capture_fault"));
    answer_deinit(&a);
    assert_int_equal(lost(&f), 1);
    clock_sleep_ms(1100);
    fixture_close(&f);
}

static void a_stream_whose_open_result_cannot_be_written_is_cut(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_late, NULL, NULL);
    disk_fail_writes(1, /* is_short= */ false, EIO);
    struct answer a = fixture_call(&f, STREAM);
    disk_heal();
    check_stream_lost(&a);
    answer_deinit(&a);
    check_open(&f, 1);
    assert_int_equal(lost(&f), 1);
    clock_sleep_ms(1100);
    fixture_close(&f);
}

/* --- durable --- */

static bool is_silent(const struct agent *a, int ms) {
    struct pollfd p = {.fd = a->fd, .events = POLLIN};
    return poll(&p, 1, ms) == 0;
}

static struct agent ask(struct fixture *f, const char *body) {
    struct agent a = agent_connect_tcp(f->port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f->session), sv_from(body));
    return a;
}

static void a_durable_call_is_sent_only_after_its_intent_is_synced(void **state) {
    struct fixture f;
    (void)state;
    fixture_open_durable(&f, answer, NULL);
    disk_hold_sync(0);
    struct agent a = ask(&f, UNARY);
    disk_await_sync();
    assert_true(is_silent(&a, 100));
    assert_int_equal(engine_requests(f.engine), 0);
    disk_release();
    struct answer r = agent_read(&a);
    assert_int_equal(r.status, 200);
    answer_deinit(&r);
    agent_close(&a);
    fixture_close(&f);
}

static void a_durable_end_is_seen_only_after_its_record_is_synced(void **state) {
    struct fixture f;
    (void)state;
    fixture_open_durable(&f, answer, NULL);
    disk_hold_sync(1);
    struct agent a = ask(&f, UNARY);
    disk_await_sync();
    assert_true(is_silent(&a, 100));
    disk_release();
    struct answer r = agent_read(&a);
    assert_int_equal(r.status, 200);
    assert_true(r.has_end);
    answer_deinit(&r);
    agent_close(&a);
    disk_hold_sync(1);
    a = ask(&f, STREAM);
    struct answer first = agent_read_until(&a, "\"content\":\"a\"");
    assert_null(strstr(buf_cstr(&first.body), "stop"));
    answer_deinit(&first);
    disk_await_sync();
    assert_int_equal(sv_find(buf_sv(&a.in), SV("data:")), (size_t)-1);
    assert_true(is_silent(&a, 100));
    disk_release();
    char rest[4096] = "";
    assert_true(recv(a.fd, rest, sizeof rest - 1, 0) > 0);
    assert_non_null(strstr(rest, "[DONE]"));
    agent_close(&a);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_end_comes_when_the_result_cannot_be_written),
        cmocka_unit_test(no_end_comes_when_the_result_is_written_in_part),
        cmocka_unit_test(no_end_comes_when_a_durable_result_cannot_be_synced),
        cmocka_unit_test(no_end_comes_when_the_disk_is_full_by_then),
        cmocka_unit_test(a_refusal_that_cannot_be_recorded_is_cut),
        cmocka_unit_test(an_answer_that_is_passed_on_is_cut),
        cmocka_unit_test(a_stream_whose_tail_cannot_be_written_is_cut),
        cmocka_unit_test(a_stream_whose_open_result_cannot_be_written_is_cut),
        cmocka_unit_test(a_durable_call_is_sent_only_after_its_intent_is_synced),
        cmocka_unit_test(a_durable_end_is_seen_only_after_its_record_is_synced),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
