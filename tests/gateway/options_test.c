/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session may be told to do: neutral sampling, versions of the policy, breaking loops. */
#include <string.h>

#include "fixture.h"
#include "journal/trace.h"

#define REQUEST "{\"model\":\"m\",\"top_p\":0.9}"
#define ANSWER(more)                                                                               \
    "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]" more \
    "}"

static void answer(struct engine_request *r, void *arg) {
    (void)arg;
    engine_json(r, 200,
                r->number == 3 ? ANSWER(",\"metadata\":{\"x\":[1],\"weight_version\":\"w3\"}")
                               : ANSWER(""));
}

static void call(struct fixture *f, int status) {
    struct answer a = fixture_call(f, REQUEST);
    assert_int_equal(a.status, status);
    answer_deinit(&a);
}

static void versioned(struct gateway_session_options *o) {
    o->policy_version = "step-1";
}

static void each_call_says_which_policy_answered(void **state) {
    static const char *const want[] = {"\"policy_version\": \"step-1\"",
                                       "\"policy_version\": \"step-2\"",
                                       "\"policy_version\": \"w3\"", "\"policy_version\": null"};
    AUTO_BUF struct buf lines = {0};
    struct fixture f;
    struct err e = {0};
    (void)state;
    fixture_open(&f, answer, NULL, versioned);
    call(&f, 200);
    assert_ok(gateway_session_set_policy_version(f.session, "step-2", &e), &e);
    call(&f, 200);
    call(&f, 200);
    assert_ok(gateway_session_set_policy_version(f.session, NULL, &e), &e);
    call(&f, 200);
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "policy_version"), "step-1");
    recorded_deinit(&r);
    fixture_close_session(&f);
    const struct trace_source from = {.journal_dir = f.journal_dir, .session = "r-0.1"};
    assert_ok(trace_to_buf(&from, &lines, NULL, &e), &e);
    struct sv rest = buf_sv(&lines);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        size_t n = sv_find(rest, SV("\n"));
        assert_true(sv_find((struct sv){rest.p, n}, sv_from(want[i])) != (size_t)-1);
        rest = sv_cut(rest, n + 1);
    }
    fixture_close(&f);
}

static void neutral(struct gateway_session_options *o) {
    o->neutral_sampling = true;
}

static void neutral_sampling_is_recorded_as_asked_and_as_sent(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer, NULL, neutral);
    call(&f, 200);
    struct recorded r = fixture_read(&f, 1);
    assert_non_null(strstr(buf_cstr(&r.sent_body), "\"top_p\":1,"));
    const json_t *sampling = json_object_get(r.intent, "sampling");
    assert_int_equal(json_object_size(json_object_get(sampling, "asked")), 1);
    assert_int_equal(json_object_size(json_object_get(sampling, "sent")), 6);
    assert_true(lists(r.result, "findings", "sampling_neutralised"));
    recorded_deinit(&r);
    fixture_close(&f);
}

static void answer_busy(struct engine_request *r, void *arg) {
    (void)arg;
    engine_json(r, 503, "{\"error\":\"busy\"}");
}

static void breaking(struct gateway_session_options *o) {
    o->loop_break_calls = 2;
}

static void a_loop_is_broken_only_when_asked_for(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_busy, NULL, breaking);
    for (int i = 0; i < 3; i++) {
        call(&f, 503);
    }
    struct answer a = fixture_call(&f, REQUEST);
    assert_int_equal(a.status, 400);
    assert_non_null(strstr(buf_cstr(&a.body), "failed again and again"));
    answer_deinit(&a);
    assert_int_equal(engine_requests(f.engine), 3);
    a = fixture_call(&f, "{\"model\":\"other\"}");
    assert_int_equal(a.status, 503);
    answer_deinit(&a);
    fixture_close(&f);
    fixture_open(&f, answer_busy, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        call(&f, 503);
    }
    fixture_close(&f);
}

/* A proper end without a reason for it: agents ask again at once. */
static void answer_without_reason(struct engine_request *r, void *arg) {
    (void)arg;
    engine_sse(r, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
                  "data: [DONE]\n\n");
}

static void as_llama(struct gateway_session_options *o) {
    o->engine = "llama.cpp";
}

static void what_the_engine_is_can_be_stated(void **state) {
    static const char request[] = "{\"model\":\"m\",\"stream\":true,\"tools\":[{}]}";
    struct gateway_session *s = NULL;
    struct fixture f;
    struct err e = {0};
    (void)state;
    fixture_open(&f, answer_without_reason, NULL, as_llama);
    struct answer a = fixture_call(&f, request);
    assert_int_equal(a.status, 200);
    answer_deinit(&a);
    struct recorded r = fixture_read(&f, 1);
    assert_non_null(strstr(buf_cstr(&r.sent_body), "\"n_probs\":5"));
    assert_null(strstr(buf_cstr(&r.sent_body), "return_token_ids"));
    assert_string_equal(text_of(r.result, "engine"), "llama.cpp");
    recorded_deinit(&r);
    const struct gateway_session_options bad = {
        .name = "r-0.2", .upstream_url = engine_url(f.engine), .engine = "vlm"};
    assert_err(gateway_session_open(f.gateway, &bad, &s, &e), ERR_INPUT, &e, "'vlm'");
    fixture_close(&f);
}

/* A second version comes while the engine has the call. */
struct change {
    struct fixture *f;
};

static void answer_after_a_change(struct engine_request *r, void *arg) {
    const struct change *change = arg;
    struct err e = {0};
    if (r->number == 1 &&
        gateway_session_set_policy_version(change->f->session, "step-2", &e) < 0) {
        engine_json(r, 500, e.msg);
        return;
    }
    engine_json(r, 200, ANSWER(""));
}

static void a_policy_that_changes_under_a_call_is_told(void **state) {
    struct fixture f;
    struct change change = {&f};
    (void)state;
    fixture_open(&f, answer_after_a_change, &change, versioned);
    call(&f, 200);
    call(&f, 200);
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "policy_version"), "step-1");
    assert_true(lists(r.result, "findings", "policy_changed"));
    recorded_deinit(&r);
    r = fixture_read(&f, 2);
    assert_string_equal(text_of(r.result, "policy_version"), "step-2");
    assert_false(lists(r.result, "findings", "policy_changed"));
    recorded_deinit(&r);
    fixture_close(&f);
}

static void answers_without_a_reason_for_their_end_are_a_loop_too(void **state) {
    static const char request[] = "{\"model\":\"m\",\"stream\":true}";
    struct gateway_session_stats stats;
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_without_reason, NULL, breaking);
    for (int i = 0; i < 5; i++) {
        struct answer a = fixture_call(&f, request);
        assert_int_equal(a.status, i < 3 ? 200 : 400);
        answer_deinit(&a);
    }
    assert_int_equal(engine_requests(f.engine), 3);
    gateway_session_stats(f.session, &stats);
    assert_int_equal(stats.loop_refusals, 2);
    assert_int_equal(stats.calls, 3);
    fixture_close(&f);
}

/* The rest of the body comes once the agent is gone. */
static void answer_busy_in_parts(struct engine_request *r, void *arg) {
    (void)arg;
    engine_puts(r, "HTTP/1.1 503 Busy\r\nContent-Length: 16\r\n\r\n{\"error\":");
    (void)engine_peer_left(r, 5000);
    engine_puts(r, "\"busy\"}");
    r->close = true;
}

/* Calls are counted once their records are written. */
static void await_ends(const struct fixture *f, uint64_t calls,
                       struct gateway_session_stats *stats) {
    deadline_ms until = deadline_in_s(5);
    gateway_session_stats(f->session, stats);
    while (stats->calls_ended < calls && !deadline_passed(until)) {
        clock_sleep_ms(1);
        gateway_session_stats(f->session, stats);
    }
    assert_int_equal(stats->calls_ended, calls);
}

static void a_failure_counts_though_the_agent_leaves_at_the_sight_of_it(void **state) {
    struct gateway_session_stats stats;
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_busy_in_parts, NULL, breaking);
    for (int i = 0; i < 3; i++) {
        struct agent a = agent_connect_tcp(f.port);
        agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session), SV(REQUEST));
        struct answer seen = agent_read_until(&a, "{");
        agent_close(&a);
        assert_int_equal(seen.status, 503);
        answer_deinit(&seen);
    }
    call(&f, 400);
    assert_int_equal(engine_requests(f.engine), 3);
    fixture_await_result(&f, 3);
    struct recorded r = fixture_read(&f, 3);
    assert_string_equal(text_of(r.result, "end"), "client_abort");
    recorded_deinit(&r);
    await_ends(&f, 3, &stats);
    assert_int_equal(stats.failed_calls, 3);
    assert_int_equal(stats.loop_refusals, 1);
    fixture_close(&f);
}

/* Nothing is broken while answers are good, however often they are asked for. */
static void equal_bodies_that_are_answered_are_samples_and_no_loop(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer, NULL, breaking);
    for (int i = 0; i < 8; i++) {
        call(&f, 200);
    }
    assert_int_equal(engine_requests(f.engine), 8);
    struct recorded last = fixture_read(&f, 8);
    assert_int_equal(last.results, 1);
    recorded_deinit(&last);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_says_which_policy_answered),
        cmocka_unit_test(neutral_sampling_is_recorded_as_asked_and_as_sent),
        cmocka_unit_test(a_loop_is_broken_only_when_asked_for),
        cmocka_unit_test(what_the_engine_is_can_be_stated),
        cmocka_unit_test(a_policy_that_changes_under_a_call_is_told),
        cmocka_unit_test(answers_without_a_reason_for_their_end_are_a_loop_too),
        cmocka_unit_test(a_failure_counts_though_the_agent_leaves_at_the_sight_of_it),
        cmocka_unit_test(equal_bodies_that_are_answered_are_samples_and_no_loop),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
