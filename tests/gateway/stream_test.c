/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#define REQUEST "{\"model\":\"m\",\"stream\":true,\"messages\":[]}"

/* As vLLM streams: ids and log-probabilities asked for; a chunk that exists only for them; usage
 * behind the end. */
static const char injected[] =
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":[1,2,3]}\n\n"
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \\u00e9\"},\"logprobs\":{\"content\":["
    "{\"token\":\"Hi\",\"logprob\":-0.20,\"bytes\":[72,105],\"top_logprobs\":[{\"token\":\"Ho\","
    "\"logprob\":-1.5e0,\"bytes\":null}]}]},\"finish_reason\":null,\"token_ids\":[9]}]}\n\n"
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"token\":\"<t>\","
    "\"logprob\":-0.01,\"bytes\":null,\"top_logprobs\":[]}]},\"finish_reason\":null,"
    "\"token_ids\":[8]}]}\n\n"
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"token\":\"\","
    "\"logprob\":0.0,\"bytes\":[],\"top_logprobs\":[]}]},\"finish_reason\":\"stop\","
    "\"stop_reason\":null,\"token_ids\":[7]}]}\n\n"
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"total_tokens\":6,\"completion_tokens\":3}}"
    "\n\n"
    "data: [DONE]\n\n";

static const char plain[] =
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
    "\"logprobs\":null,\"finish_reason\":null}],\"prompt_token_ids\":null}\n\n"
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi \\u00e9\"},\"logprobs\":null,"
    "\"finish_reason\":null,\"token_ids\":null}]}\n\n"
    "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":17,\"model\":\"m\","
    "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\","
    "\"stop_reason\":null,\"token_ids\":null}]}\n\n"
    "data: [DONE]\n\n";

static void answer_sse(struct engine_request *r, void *arg) {
    engine_sse(r, arg);
}

static void a_streamed_call_is_captured_and_looks_untouched(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_sse, (void *)(uintptr_t)injected, NULL);
    struct answer a = fixture_call(&f, REQUEST);
    assert_int_equal(a.status, 200);
    assert_true(a.has_end);
    assert_bytes(&a.body, sv_from(plain));
    assert_non_null(strstr(buf_cstr(&a.head), "X-Request-Id: q1\r\n"));

    struct recorded r = fixture_read(&f, 1);
    assert_int_equal(r.intents, 1);
    assert_int_equal(r.results, 1);
    assert_bytes(&r.agent_body, sv_from(REQUEST));
    assert_bytes(&r.sent_body,
                 SV("{\"model\":\"m\",\"stream\":true,\"messages\":[],\"logprobs\":true,"
                    "\"top_logprobs\":5,\"return_token_ids\":true,"
                    "\"stream_options\":{\"include_usage\":true}}"));
    assert_bytes(&r.ids, SV("[9,8,7]"));
    assert_bytes(&r.prompt_ids, SV("[1,2,3]"));
    assert_bytes(&r.logps, SV("[-0.20,-0.01,0.0]"));
    assert_bytes(&r.tokens, SV("[\"Hi\",\"<t>\",\"\"]"));
    assert_bytes(&r.response,
                 SV("{\"id\":\"c1\",\"object\":\"chat.completion\",\"created\":17,\"model\":\"m\","
                    "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                    "\"content\":\"Hi \\u00e9\"},\"finish_reason\":\"stop\"}],\"usage\":"
                    "{\"prompt_tokens\":3,\"total_tokens\":6,\"completion_tokens\":3}}"));
    assert_string_equal(text_of(r.result, "end"), "complete");
    assert_string_equal(text_of(r.result, "finish_reason"), "stop");
    assert_string_equal(text_of(r.result, "engine"), "vllm");
    assert_string_equal(text_of(r.intent, "agent_session"), "ses_1");
    assert_int_equal(json_array_size(json_object_get(r.result, "findings")), 0);
    assert_int_equal(json_array_size(json_object_get(r.intent, "edits")), 4);
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
}

static void sessions_of_one_gateway_do_not_mix(void **state) {
    struct fixture f;
    struct gateway_session *bare;
    struct err e = {0};
    (void)state;
    fixture_open(&f, answer_sse, (void *)(uintptr_t)injected, NULL);
    const struct gateway_session_options o = {.name = "bare.1",
                                              .upstream_url = engine_url(f.engine)};
    assert_ok(gateway_session_open(f.gateway, &o, &bare, &e), &e);
    struct agent a = agent_connect_tcp(f.port);
    for (int i = 0; i < 6; i++) {
        bool is_bare = i % 2 == 1;
        agent_post(&a, "/v1/chat/completions", gateway_session_token(is_bare ? bare : f.session),
                   SV(REQUEST));
        struct answer r = agent_read(&a);
        assert_bytes(&r.body, sv_from(is_bare ? injected : plain));
        answer_deinit(&r);
    }
    agent_close(&a);
    assert_ok(gateway_session_close(bare, deadline_in_s(1), &e), &e);
    fixture_close(&f);
}

static void raw_answers_are_kept_when_asked_for(void **state) {
    struct fixture f;
    (void)state;
    fixture_open_with(&f, answer_sse, (void *)(uintptr_t)injected,
                      (struct gateway_options){.host = "127.0.0.1", .keep_raw = true}, NULL);
    struct answer a = fixture_call(&f, REQUEST);
    struct recorded r = fixture_read(&f, 1);
    assert_bytes(&r.raw, sv_from(injected));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
}

static void wait_for_the_peer(struct engine_request *r, void *arg) {
    (void)arg;
    engine_peer_left(r, 5000);
    r->close = true;
}

static void calls_above_the_limit_are_refused_with_its_number(void **state) {
    struct fixture f;
    (void)state;
    fixture_open_with(&f, wait_for_the_peer, NULL,
                      (struct gateway_options){.host = "127.0.0.1", .connections_max = 1}, NULL);
    struct agent first = agent_connect_tcp(f.port);
    agent_post(&first, "/v1/chat/completions", gateway_session_token(f.session), SV(REQUEST));
    while (engine_requests(f.engine) == 0) {
        clock_sleep_ms(1);
    }
    struct answer a = fixture_call(&f, REQUEST);
    assert_int_equal(a.status, 429);
    assert_non_null(strstr(buf_cstr(&a.body), "1 calls are open"));
    answer_deinit(&a);
    agent_close(&first);
    fixture_await_result(&f, 1);
    fixture_close(&f);
}

/* Each piece is sent when the agent has the one before. */
struct steps {
    atomic_uint taken; /* By the agent. */
    bool stuck;
};

static bool await_step(struct steps *s, unsigned n) {
    for (int i = 0; s->taken < n && i < 5000; i++) {
        clock_sleep_ms(1);
    }
    s->stuck |= s->taken < n;
    return !s->stuck;
}

static void answer_in_steps(struct engine_request *r, void *arg) {
    struct steps *s = arg;
    engine_sse_head(r);
    if (await_step(s, 1) && engine_chunk(r, SV(": ping\n\n")) && await_step(s, 2)) {
        engine_chunk(r, SV("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},"
                           "\"token_ids\":[1]}]}\n\n"));
        await_step(s, 3);
    }
    engine_chunk(r, SV("data: [DONE]\n\n"));
    engine_puts(r, "0\r\n\r\n");
}

static void the_head_and_each_event_pass_as_soon_as_they_come(void **state) {
    static const char *const marks[] = {"\r\n\r\n", ": ping", "\"a\"", "[DONE]"};
    AUTO_BUF struct buf got = {0};
    struct steps s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_in_steps, &s, NULL);
    struct agent a = agent_connect_tcp(f.port);
    agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session), SV(REQUEST));
    while (s.taken < 4) {
        char bytes[4096];
        ssize_t n = recv(a.fd, bytes, sizeof bytes, 0);
        assert_true(n > 0);
        assert_int_equal(buf_add(&got, bytes, (size_t)n), 0);
        while (s.taken < 4 && strstr(buf_cstr(&got), marks[s.taken])) {
            s.taken++;
        }
    }
    assert_false(s.stuck);
    agent_close(&a);
    fixture_close(&f);
}

static void a_stream_that_ends_without_done_is_complete_and_passes_as_it_is(void **state) {
    static const char events[] =
        "data: "
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}"
        "\n\ndata: {\"choices\":[],\"x\":1}\n\n";
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_sse, (void *)(uintptr_t)events, NULL);
    struct answer a = fixture_call(&f, REQUEST);
    assert_true(a.has_end);
    assert_bytes(&a.body, sv_from(events));
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "end"), "complete");
    assert_string_equal(text_of(r.result, "finish_reason"), "stop");
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
}

static void a_stream_without_a_finish_reason_passes_and_is_recorded_without_one(void **state) {
    static const char events[] =
        "data: "
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n"
        "data: [DONE]\n\n";
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_sse, (void *)(uintptr_t)events, NULL);
    struct answer a = fixture_call(&f, REQUEST);
    assert_true(a.has_end);
    assert_bytes(&a.body, sv_from(events));
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "end"), "complete");
    assert_string_equal(text_of(r.result, "finish_reason"), "");
    assert_true(lists(r.result, "findings", "no_finish_reason"));
    assert_non_null(strstr(buf_cstr(&r.response), "\"finish_reason\":null"));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
}

static void
ids_and_log_probabilities_that_were_asked_for_and_did_not_come_are_marked(void **state) {
    static const char events[] =
        "data: "
        "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"
        "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_sse, (void *)(uintptr_t)events, NULL);
    struct answer a = fixture_call(&f, REQUEST);
    struct recorded r = fixture_read(&f, 1);
    assert_true(lists(r.result, "findings", "no_logprobs"));
    assert_true(lists(r.result, "findings", "no_sampled_ids"));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
}

#define ZERO(text) "{\"token\":\"a\",\"logprob\":" text "}"

static void answer_zeros(struct engine_request *r, void *arg) {
    (void)arg;
    engine_json(r, 200,
                r->number == 1 ? "{\"choices\":[{\"index\":0,\"logprobs\":{\"content\":[" ZERO(
                                     "0.0") "," ZERO("-0") "," ZERO("0") "," ZERO("0e5") "]}}]}"
                               : "{\"choices\":[{\"index\":0,\"logprobs\":{\"content\":[" ZERO(
                                     "0.0") "," ZERO("-0") "," ZERO("0") "," ZERO("-0.1") "]}}]}");
}

static void log_probabilities_that_are_all_zero_are_marked(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_zeros, NULL, NULL);
    for (uint64_t i = 1; i <= 2; i++) {
        struct answer a = fixture_call(&f, "{\"model\":\"m\"}");
        struct recorded r = fixture_read(&f, i);
        assert_int_equal(lists(r.result, "findings", "zero_logprobs"), i == 1);
        assert_false(lists(r.result, "findings", "positive_logprob"));
        recorded_deinit(&r);
        answer_deinit(&a);
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_and_each_event_pass_as_soon_as_they_come),
        cmocka_unit_test(a_stream_that_ends_without_done_is_complete_and_passes_as_it_is),
        cmocka_unit_test(a_stream_without_a_finish_reason_passes_and_is_recorded_without_one),
        cmocka_unit_test(ids_and_log_probabilities_that_were_asked_for_and_did_not_come_are_marked),
        cmocka_unit_test(log_probabilities_that_are_all_zero_are_marked),
        cmocka_unit_test(a_streamed_call_is_captured_and_looks_untouched),
        cmocka_unit_test(sessions_of_one_gateway_do_not_mix),
        cmocka_unit_test(raw_answers_are_kept_when_asked_for),
        cmocka_unit_test(calls_above_the_limit_are_refused_with_its_number),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
