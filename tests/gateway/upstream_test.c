/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <string.h>
#include <sys/socket.h>

#define STREAM "{\"model\":\"m\",\"stream\":true}"
#define GOOD                                                                                       \
    "data: "                                                                                       \
    "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"   \
    "data: [DONE]\n\n"

struct seen {
    unsigned n;
    unsigned connections[64];
    struct buf heads[64];
    struct buf bodies[64];
};

static void note(struct seen *s, const struct engine_request *r) {
    if (s->n < 64) {
        assert_int_equal(buf_add_sv(&s->heads[s->n], r->head), 0);
        assert_int_equal(buf_add_sv(&s->bodies[s->n], r->body), 0);
        s->connections[s->n] = r->connection;
    }
    s->n++;
}

static void seen_deinit(struct seen *s) {
    for (size_t i = 0; i < 64; i++) {
        buf_deinit(&s->heads[i]);
        buf_deinit(&s->bodies[i]);
    }
}

static void answer_good(struct engine_request *r, void *arg) {
    note(arg, r);
    engine_sse(r, GOOD);
}

static void call_once(struct fixture *f, int want_status) {
    struct answer a = fixture_call(f, STREAM);
    assert_int_equal(a.status, want_status);
    assert_true(a.has_end);
    answer_deinit(&a);
}

static void the_engine_sees_the_agent_s_head_with_our_key(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_good, &s, NULL);
    struct agent a = agent_connect_tcp(f.port);
    AUTO_BUF struct buf b = {0};
    assert_int_equal(
        buf_addf(&b,
                 "POST /s/%s/v1/chat/completions HTTP/1.1\r\nHost: gw\r\n"
                 "User-Agent: opencode/1\r\nAuthorization: Bearer agent-key\r\n"
                 "X-Two: a\r\nx-two: b\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
                 "Accept-Encoding: gzip, br\r\nExpect: 100-continue\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n",
                 gateway_session_token(f.session)),
        0);
    agent_send(&a, buf_sv(&b));
    char word[25];
    for (size_t i = 0; i < sizeof word; i++) {
        assert_int_equal(recv(a.fd, word + i, 1, 0), 1);
    }
    assert_memory_equal(word, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    agent_send(&a, SV("a\r\n{\"stream\":\r\n5\r\ntrue}\r\n0\r\n\r\n"));
    struct answer r = agent_read(&a);
    assert_int_equal(r.status, 200);
    AUTO_BUF struct buf want = {0};
    assert_int_equal(
        buf_addf(&want,
                 "POST /v1/chat/completions HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: opencode/1\r\n"
                 "X-Two: a\r\nx-two: b\r\nAccept-Encoding: identity\r\n"
                 "Authorization: Bearer sk-real\r\nContent-Length: %zu\r\n\r\n",
                 (int)(strlen(engine_url(f.engine)) - 10), engine_url(f.engine) + 7,
                 s.bodies[0].len),
        0);
    assert_bytes(&s.heads[0], buf_sv(&want));
    answer_deinit(&r);
    agent_close(&a);
    fixture_close(&f);
    seen_deinit(&s);
}

static void connections_are_kept_and_used_again(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_good, &s, NULL);
    for (int i = 0; i < 5; i++) {
        call_once(&f, 200);
        clock_sleep_ms(5);
    }
    assert_int_equal(engine_requests(f.engine), 5);
    assert_int_equal(s.connections[4], 1);
    fixture_close(&f);
    seen_deinit(&s);
}

/* Closes each connection as soon as a second request comes on it, without a word. */
static void answer_first_only(struct engine_request *r, void *arg) {
    note(arg, r);
    if (r->on_connection > 1) {
        r->close = true;
        r->reset = r->number % 2 == 0;
        return;
    }
    engine_sse(r, GOOD);
}

static void a_reused_connection_that_is_dead_is_replaced_once(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_first_only, &s, NULL);
    for (int i = 0; i < 20; i++) {
        call_once(&f, 200);
    }
    struct recorded r = fixture_read(&f, 20);
    assert_string_equal(text_of(r.result, "end"), "complete");
    recorded_deinit(&r);
    fixture_close(&f);
    seen_deinit(&s);
}

/* Answers, and closes a moment later, as an engine does whose idle time is over. */
static void answer_and_close(struct engine_request *r, void *arg) {
    note(arg, r);
    engine_sse(r, GOOD);
    r->close = true;
}

static void a_connection_closed_while_idle_is_not_used(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_and_close, &s, NULL);
    for (int i = 0; i < 30; i++) {
        call_once(&f, 200);
        clock_sleep_ms(i % 3);
    }
    assert_int_equal(engine_requests(f.engine), 30);
    fixture_close(&f);
    seen_deinit(&s);
}

static void answer_dead(struct engine_request *r, void *arg) {
    note(arg, r);
    r->close = true;
}

static void a_fresh_connection_that_dies_is_not_tried_again(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_dead, &s, NULL);
    call_once(&f, 502);
    assert_int_equal(engine_requests(f.engine), 1);
    fixture_close(&f);
    seen_deinit(&s);
}

static void answer_picky(struct engine_request *r, void *arg) {
    note(arg, r);
    if (sv_find(r->body, SV("return_token_ids")) != (size_t)-1) {
        engine_json(r, 400,
                    "{\"error\":{\"message\":\"Unrecognized request argument supplied: "
                    "return_token_ids\"}}");
    } else {
        engine_sse(r, GOOD);
    }
}

static void a_refused_field_is_left_out_and_not_asked_for_again(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_picky, &s, NULL);
    call_once(&f, 200);
    assert_int_equal(engine_requests(f.engine), 2);
    assert_non_null(strstr(buf_cstr(&s.bodies[1]), "\"logprobs\":true"));
    assert_null(strstr(buf_cstr(&s.bodies[1]), "return_token_ids"));
    call_once(&f, 200);
    assert_int_equal(engine_requests(f.engine), 3);
    struct recorded r = fixture_read(&f, 1);
    assert_int_equal(r.intents, 2);
    assert_int_equal(r.results, 1);
    assert_bytes(&r.sent_body, buf_sv(&s.bodies[1]));
    assert_int_equal(json_integer_value(json_object_get(r.intent, "refused_status")), 400);
    assert_string_equal(text_of(r.intent, "level"), "logprobs");
    recorded_deinit(&r);
    r = fixture_read(&f, 2);
    assert_int_equal(r.intents, 1);
    recorded_deinit(&r);
    fixture_close(&f);
    seen_deinit(&s);
}

/* As vLLM: lists of ids, but for some answers, which lack them without a word. */
#define LISTS                                                                                      \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":[7],"            \
    "\"finish_reason\":\"stop\"}],\"prompt_token_ids\":[1,2]}\n\ndata: [DONE]\n\n"

struct forgetful {
    struct seen seen;
    unsigned long forgets; /* One bit an answer, from the first. */
};

static void answer_forgetfully(struct engine_request *r, void *arg) {
    struct forgetful *f = arg;
    note(&f->seen, r);
    engine_sse(r, f->forgets & 1ul << (r->number - 1) ? GOOD : LISTS);
}

static void lists_of_ids_are_asked_for_until_they_are_missing_again_and_again(void **state) {
    static const struct {
        unsigned long forgets;
        bool changes;
    } runs[] = {
        {0x1, false},
        {0x1b, false}, /* Two in a row, and two. */
        {0x7, true},
        {0x1c, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct forgetful engine = {.forgets = runs[i].forgets};
        struct fixture f;
        fixture_open(&f, answer_forgetfully, &engine, NULL);
        for (int n = 0; n < 6; n++) {
            call_once(&f, 200);
        }
        assert_int_equal(engine_requests(f.engine), 6);
        bool asks_lists = strstr(buf_cstr(&engine.seen.bodies[5]), "\"return_token_ids\":true");
        bool asks_strings = strstr(buf_cstr(&engine.seen.bodies[5]), "return_tokens_as_token_ids");
        assert_int_equal(asks_lists, !runs[i].changes);
        assert_int_equal(asks_strings, runs[i].changes);
        struct recorded r = fixture_read(&f, 1);
        assert_int_equal(lists(r.result, "findings", "no_sampled_ids"), runs[i].forgets & 1);
        recorded_deinit(&r);
        fixture_close(&f);
        seen_deinit(&engine.seen);
    }
}

static void answer_strict(struct engine_request *r, void *arg) {
    note(arg, r);
    if (sv_find(r->body, SV("logprobs")) != (size_t)-1) {
        engine_json(r, 422, "{\"detail\":[{\"loc\":[\"body\",\"logprobs\"]}]}");
    } else {
        engine_sse(r, GOOD);
    }
}

static void a_refusal_of_the_last_thing_is_answered_with_the_clean_request(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_strict, &s, NULL);
    call_once(&f, 200);
    assert_int_equal(engine_requests(f.engine), 2);
    assert_bytes(&s.bodies[1], SV(STREAM));
    call_once(&f, 200);
    assert_int_equal(engine_requests(f.engine), 3);
    fixture_close(&f);
    seen_deinit(&s);
}

static const char overflow[] = "{\"object\":\"error\",\"message\":\"context length is 8192\"}";

static void answer_overflow(struct engine_request *r, void *arg) {
    note(arg, r);
    engine_json(r, 400, overflow);
}

static void an_error_of_the_agent_s_own_passes_word_for_word(void **state) {
    struct seen s = {0};
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_overflow, &s, NULL);
    for (unsigned i = 1; i <= 2; i++) {
        struct answer a = fixture_call(&f, STREAM);
        assert_int_equal(a.status, 400);
        assert_bytes(&a.body, sv_from(overflow));
        assert_non_null(strstr(buf_cstr(&a.head), "HTTP/1.1 400 Some Reason\r\n"));
        answer_deinit(&a);
        assert_int_equal(engine_requests(f.engine), i); /* It names nothing of ours. */
    }
    struct recorded r = fixture_read(&f, 1);
    assert_string_equal(text_of(r.result, "upstream_error"), overflow);
    assert_int_equal(json_integer_value(json_object_get(r.result, "upstream_status")), 400);
    assert_string_equal(text_of(r.result, "end"), "error");
    assert_int_equal(json_integer_value(json_object_get(r.result, "status")), 400);
    recorded_deinit(&r);
    fixture_close(&f);
    seen_deinit(&s);
}

static void answer_html(struct engine_request *r, void *arg) {
    (void)arg;
    engine_puts(r, "HTTP/1.1 503 Busy\r\nContent-Type: text/html\r\nRetry-After: 3\r\n"
                   "x-should-retry: false\r\nContent-Length: 16\r\n\r\n<html>busy</html");
}

static void errors_in_html_pass_with_their_fields(void **state) {
    struct gateway_session_stats stats;
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_html, NULL, NULL);
    struct answer a = fixture_call(&f, STREAM);
    assert_int_equal(a.status, 503);
    assert_bytes(&a.body, SV("<html>busy</html"));
    assert_non_null(strstr(buf_cstr(&a.head), "Retry-After: 3\r\nx-should-retry: false\r\n"));
    gateway_session_stats(f.session, &stats);
    assert_int_equal(stats.failed_in_a_row, 1);
    answer_deinit(&a);
    fixture_close(&f);
}

static void answer_early(struct engine_request *r, void *arg) {
    (void)arg;
    engine_puts(r, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
    engine_sse(r, GOOD);
}

static void heads_before_the_final_one_are_passed_over(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_early, NULL, NULL);
    call_once(&f, 200);
    fixture_close(&f);
}

static void proxies_of_the_environment_are_not_asked(void **state) {
    static const char *const names[] = {"http_proxy",  "HTTP_PROXY", "https_proxy",
                                        "HTTPS_PROXY", "all_proxy",  "ALL_PROXY"};
    struct seen s = {0};
    struct fixture f;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv(names[i], "http://127.0.0.1:1", 1);
    }
    fixture_open(&f, answer_good, &s, NULL);
    call_once(&f, 200);
    fixture_close(&f);
    seen_deinit(&s);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsetenv(names[i]);
    }
}

static void answer_encoded(struct engine_request *r, void *arg) {
    (void)arg;
    engine_puts(r, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: dcb\r\n"
                   "Content-Length: 4\r\n\r\n\x1f\x8b");
    engine_puts(r, "xy");
}

static void an_answer_in_an_unknown_coding_passes_and_is_marked(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_encoded, NULL, NULL);
    struct answer a = fixture_call(&f, STREAM);
    assert_bytes(&a.body, SV("\x1f\x8bxy"));
    struct recorded r = fixture_read(&f, 1);
    assert_true(lists(r.result, "findings", "encoded_answer"));
    recorded_deinit(&r);
    answer_deinit(&a);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_sees_the_agent_s_head_with_our_key),
        cmocka_unit_test(connections_are_kept_and_used_again),
        cmocka_unit_test(a_reused_connection_that_is_dead_is_replaced_once),
        cmocka_unit_test(a_connection_closed_while_idle_is_not_used),
        cmocka_unit_test(a_fresh_connection_that_dies_is_not_tried_again),
        cmocka_unit_test(a_refused_field_is_left_out_and_not_asked_for_again),
        cmocka_unit_test(lists_of_ids_are_asked_for_until_they_are_missing_again_and_again),
        cmocka_unit_test(a_refusal_of_the_last_thing_is_answered_with_the_clean_request),
        cmocka_unit_test(an_error_of_the_agent_s_own_passes_word_for_word),
        cmocka_unit_test(errors_in_html_pass_with_their_fields),
        cmocka_unit_test(heads_before_the_final_one_are_passed_over),
        cmocka_unit_test(proxies_of_the_environment_are_not_asked),
        cmocka_unit_test(an_answer_in_an_unknown_coding_passes_and_is_marked),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
