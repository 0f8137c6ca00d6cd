/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <string.h>

#define REQUEST "{\"model\":\"m\",\"stream\":true,\"messages\":[]}"
#define ASKS_ALL                                                                                   \
    "{\"model\":\"m\",\"stream\":true,\"logprobs\":true,\"top_logprobs\":5,"                       \
    "\"return_token_ids\":true,\"stream_options\":{\"include_usage\":true}}"

/* Every framing that a reader of events must take. */
static const char *const shapes[] = {
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\r\r",
    ": ping\n\n",
    ": OPENROUTER PROCESSING\n\n\n\n",
    "data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"no blank\"}}]}\n\n",
    "data: {\"choices\":\ndata: [{\"index\":0,\ndata:\"delta\":{\"content\":\"lines\"}}]}\n\n",
    "event: message\nid: 7\nretry: 100\ndata: {\"choices\":[]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xf0\x9f\x98\x80 \xe2\x80\xa8"
    "\xc2\x85\"}}]}\n\n",
    "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{}}],\"usage\":null,\"unknown\":{\"a\":[1]}}\n\n",
    "data: {\"error\":{\"message\":\"boom\"}}\n\n",
    "data: not json at all\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\","
    "\"type\":\"function\",\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":{\"content\":[{\"token\":\"a\","
    "\"logprob\":NaN}]},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n",
    "data: [DONE]\n\n",
};

struct script {
    const struct buf *body;
    size_t step; /* Bytes a write. */
    bool chunk_a_step;
    bool by_close;
};

static void answer(struct engine_request *r, void *arg) {
    const struct script *s = arg;
    if (s->by_close) {
        engine_puts(r, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        r->close = true;
    } else {
        engine_sse_head(r);
    }
    struct sv left = buf_sv(s->body);
    while (left.n > 0) {
        struct sv piece = {left.p, left.n < s->step ? left.n : s->step};
        if (!(s->by_close ? engine_write(r, piece) : engine_chunk(r, piece))) {
            return;
        }
        left = sv_cut(left, piece.n);
    }
    if (!s->by_close) {
        engine_puts(r, "0\r\n\r\n");
    }
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

static void without_record(struct gateway_session_options *o) {
    o->edits = false;
    o->record = false;
}

static void put_all(struct buf *body) {
    assert_int_equal(buf_adds(body, "\xef\xbb\xbf"), 0);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        assert_int_equal(buf_adds(body, shapes[i]), 0);
    }
}

static void check_equal(struct script s, const char *request,
                        void (*change)(struct gateway_session_options *o)) {
    struct fixture f;
    fixture_open(&f, answer, &s, change);
    struct answer a = fixture_call(&f, request);
    assert_int_equal(a.status, 200);
    assert_true(a.has_end);
    assert_bytes(&a.body, buf_sv(s.body));
    answer_deinit(&a);
    fixture_close(&f);
}

static void without_edits_the_agent_gets_the_engine_s_bytes(void **state) {
    static const size_t steps[] = {1, 7, 100000};
    AUTO_BUF struct buf body = {0};
    (void)state;
    put_all(&body);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        check_equal((struct script){.body = &body, .step = steps[i]}, REQUEST, without_edits);
        check_equal((struct script){.body = &body, .step = steps[i]}, REQUEST, without_record);
        check_equal((struct script){.body = &body, .step = steps[i], .by_close = true}, REQUEST,
                    without_edits);
    }
}

static void with_edits_an_agent_that_asks_itself_gets_the_engine_s_bytes(void **state) {
    AUTO_BUF struct buf body = {0};
    (void)state;
    put_all(&body);
    check_equal((struct script){.body = &body, .step = 1}, ASKS_ALL, NULL);
    check_equal((struct script){.body = &body, .step = 5000}, ASKS_ALL, NULL);
}

/* What an engine sends in answer to injected fields, and what it would have sent without them. */
static const struct {
    const char *with;
    const char *without;
} pairs[] = {
    {"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":{\"content\":[]}"
     ",\"token_ids\":[1]}],\"prompt_token_ids\":[3]}\n\n",
     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"logprobs\":null"
     ",\"token_ids\":null}],\"prompt_token_ids\":null}\n\n"},
    {"data: {\"choices\":[{\"index\":0,\"delta\":{},\"token_ids\":[1]}]}\n\n", ""},
    {": ping\r\n\r\n", ": ping\r\n\r\n"},
    {"event: x\ndata: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"b\"},\n"
     "data: \"token_ids\":[2]}]}\n\n",
     "event: x\ndata: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"b\"},\n"
     "data: \"token_ids\":null}]}\n\n"},
    {"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":[7]}]}"
     "\r\n\r\n",
     "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\",\"token_ids\":null}]"
     "}\r\n\r\n"},
    {"data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\n", ""},
    {"data: [DONE]\n\n", "data: [DONE]\n\n"},
};

static void with_edits_each_event_is_as_without_our_fields(void **state) {
    AUTO_BUF struct buf with = {0};
    AUTO_BUF struct buf without = {0};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(buf_adds(&with, pairs[i].with), 0);
        assert_int_equal(buf_adds(&without, pairs[i].without), 0);
    }
    for (size_t step = 1; step < 400; step += 57) {
        struct fixture f;
        struct script s = {.body = &with, .step = step};
        fixture_open(&f, answer, &s, NULL);
        struct answer a = fixture_call(&f, REQUEST);
        assert_true(a.has_end);
        assert_bytes(&a.body, buf_sv(&without));
        struct recorded r = fixture_read(&f, 1);
        assert_bytes(&r.ids, SV("[1,1,2,7]"));
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
    }
}

static void a_last_event_gets_its_blank_line_with_edits_only(void **state) {
    static const struct {
        const char *sent, *want;
    } rows[] = {
        {"data: {\"choices\":[]}", "data: {\"choices\":[]}\n\n"},
        {"data: {\"choices\":[]}\n", "data: {\"choices\":[]}\n\n"},
        {": ping\n\ndata: [DONE]\n", ": ping\n\ndata: [DONE]\n\n"},
        {"data: {\"choices\":[", "data: {\"choices\":["},
        {"data: {\"choices\":[]}\n\n", "data: {\"choices\":[]}\n\n"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        AUTO_BUF struct buf body = {0};
        struct script s = {.body = &body, .step = 3};
        struct fixture f;
        assert_int_equal(buf_adds(&body, rows[i / 2].sent), 0);
        fixture_open(&f, answer, &s, i % 2 ? without_edits : NULL);
        struct answer a = fixture_call(&f, REQUEST);
        assert_bytes(&a.body, sv_from(i % 2 ? rows[i / 2].sent : rows[i / 2].want));
        answer_deinit(&a);
        fixture_close(&f);
    }
}

static void a_big_event_passes_whole(void **state) {
    AUTO_BUF struct buf body = {0};
    (void)state;
    assert_int_equal(buf_adds(&body, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\""),
                     0);
    for (int i = 0; i < 300000; i++) {
        assert_int_equal(buf_adds(&body, "0123456789"), 0);
    }
    assert_int_equal(buf_adds(&body, "\"}}]}\n\ndata: [DONE]\n\n"), 0);
    check_equal((struct script){.body = &body, .step = 65536}, ASKS_ALL, NULL);
}

#define ROW(top)                                                                                   \
    "{\"token\":\"token_id:9\",\"logprob\":-0.50,\"bytes\":null,\"top_logprobs\":[" top "]}"
#define UNARY(logprobs, ids, prompt)                                                               \
    "{ \"id\":\"c\", \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"   \
    "\"\\u00e9\"},\"logprobs\":" logprobs ",\"finish_reason\":\"stop\",\"token_ids\":" ids         \
    "}],\"usage\":{\"completion_tokens\":1,\"x\":1e0},\"prompt_token_ids\":" prompt "}"

static void answer_unary(struct engine_request *r, void *arg) {
    (void)arg;
    engine_json(
        r, 200,
        UNARY("{\"content\":[" ROW("{\"token\":\"b\",\"logprob\":-2}") "]}", "[9]", "[1,2]"));
}

static void a_whole_answer_is_put_right_and_recorded(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_unary, NULL, NULL);
    struct answer a = fixture_call(&f, "{\"model\":\"m\"}");
    assert_bytes(&a.body, SV(UNARY("null", "null", "null")));
    assert_true(a.has_end);
    answer_deinit(&a);
    a = fixture_call(&f, "{\"model\":\"m\",\"logprobs\":true}");
    assert_bytes(&a.body, SV(UNARY("{\"content\":[" ROW("") "]}", "null", "null")));
    answer_deinit(&a);
    struct recorded r = fixture_read(&f, 1);
    assert_bytes(&r.ids, SV("[9]"));
    assert_bytes(&r.logps, SV("[-0.50]"));
    assert_bytes(&r.prompt_ids, SV("[1,2]"));
    assert_bytes(&r.response, SV(UNARY("null", "null", "null")));
    assert_bytes(&r.usage, SV("{\"completion_tokens\":1,\"x\":1e0}"));
    assert_string_equal(text_of(r.result, "finish_reason"), "stop");
    recorded_deinit(&r);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_edits_the_agent_gets_the_engine_s_bytes),
        cmocka_unit_test(with_edits_an_agent_that_asks_itself_gets_the_engine_s_bytes),
        cmocka_unit_test(with_edits_each_event_is_as_without_our_fields),
        cmocka_unit_test(a_last_event_gets_its_blank_line_with_edits_only),
        cmocka_unit_test(a_big_event_passes_whole),
        cmocka_unit_test(a_whole_answer_is_put_right_and_recorded),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
