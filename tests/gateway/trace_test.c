/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <math.h>
#include <string.h>

#include "journal/trace.h"

#define REQUEST "{\"model\":\"m\",\"stream\":true,\"temperature\":0.70,\"max_tokens\":9}"

static const char good[] =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":null,\"tool_calls\":[{"
    "\"index\":0,\"id\":\"t\",\"type\":\"function\",\"function\":{\"name\":\"ls\",\"arguments\":"
    "\"{\\\"a\\\": 5.0e3}\"}}]},\"logprobs\":{\"content\":[{\"token\":\"x\",\"logprob\":-0.250}]},"
    "\"finish_reason\":\"tool_calls\",\"token_ids\":[4]}],\"prompt_token_ids\":[1,2]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";

/* A whole stream, then an error, then a stream that breaks off. */
static void answer(struct engine_request *r, void *arg) {
    if (r->number == 1) {
        assert_int_equal(buf_add_sv(arg, r->body), 0);
        engine_sse(r, good);
    } else if (r->number == 2) {
        engine_json(r, 429, "{\"error\":\"slow down\"}");
    } else {
        engine_sse_head(r);
        engine_chunk(r,
                     SV("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\"}}]}\n\n"));
        r->close = true;
    }
}

static json_t *line_of(const struct buf *lines, unsigned turn) {
    struct sv rest = buf_sv(lines);
    for (; turn > 1; turn--) {
        rest = sv_cut(rest, sv_find(rest, SV("\n")) + 1);
    }
    json_t *line = json_loadb(rest.p, sv_find(rest, SV("\n")), 0, NULL);
    assert_non_null(line);
    return line;
}

static const json_t *at(const json_t *value, const char *path) {
    char word[64];
    while (*path) {
        size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        value = word[0] >= '0' && word[0] <= '9' ? json_array_get(value, (size_t)(word[0] - '0'))
                                                 : json_object_get(value, word);
        path += n + (path[n] == '.');
    }
    return value;
}

static void check_whole(const json_t *line) {
    assert_true(json_is_true(at(line, "request.logprobs")));
    assert_int_equal(json_integer_value(at(line, "request.max_tokens")), 5);
    assert_string_equal(
        json_string_value(at(line, "response.choices.0.message.tool_calls.0.function.arguments")),
        "{\"a\": 5.0e3}");
    assert_true(json_is_null(at(line, "response.choices.0.message.content")));
    assert_int_equal(json_integer_value(at(line, "completion_token_ids.0")), 4);
    assert_int_equal(json_integer_value(at(line, "prompt_token_ids.1")), 2);
    assert_true(fabs(json_real_value(at(line, "per_token_logps.0")) + 0.25) < 1e-9);
    assert_string_equal(json_string_value(at(line, "logprobs.0.token")), "x");
    assert_string_equal(json_string_value(at(line, "finish_reason")), "tool_calls");
    assert_string_equal(json_string_value(at(line, "end")), "complete");
    assert_int_equal(json_integer_value(at(line, "sampling.asked.max_tokens")), 9);
    assert_int_equal(json_integer_value(at(line, "sampling.sent.max_tokens")), 5);
    assert_int_equal(json_integer_value(at(line, "usage.completion_tokens")), 1);
    assert_int_equal(json_array_size(at(line, "findings")), 0);
}

static void capped(struct gateway_session_options *o) {
    o->max_tokens_cap = 5;
}

static void the_trace_tells_what_happened_to_each_call(void **state) {
    AUTO_BUF struct buf lines = {0};
    AUTO_BUF struct buf seen = {0};
    AUTO_BUF struct buf first = {0};
    struct trace_summary summary;
    struct fixture f;
    struct err e = {0};
    (void)state;
    fixture_open(&f, answer, &seen, capped);
    static const int statuses[] = {200, 429, 200};
    for (int i = 0; i < 3; i++) {
        struct answer a = fixture_call(&f, REQUEST);
        assert_int_equal(a.status, statuses[i]);
        answer_deinit(&a);
    }
    fixture_close_session(&f);
    const struct trace_source from = {.journal_dir = f.journal_dir, .session = "r-0.1"};
    assert_ok(trace_to_buf(&from, &lines, &summary, &e), &e);
    assert_int_equal(summary.calls, 3);
    assert_int_equal(summary.open, 0);
    /* The request, byte by byte, is what the engine got. */
    assert_true(seen.len > sizeof REQUEST);
    assert_int_equal(buf_addf(&first, "{\"turn\": 1, \"request\": %s, ", buf_cstr(&seen)), 0);
    assert_true(sv_starts_with(buf_sv(&lines), buf_sv(&first)));
    json_t *line = line_of(&lines, 1);
    check_whole(line);
    json_decref(line);
    line = line_of(&lines, 2);
    assert_string_equal(json_string_value(at(line, "end")), "error");
    assert_int_equal(json_integer_value(at(line, "response.upstream_status")), 429);
    assert_string_equal(json_string_value(at(line, "upstream_error")), "{\"error\":\"slow down\"}");
    json_decref(line);
    line = line_of(&lines, 3);
    assert_string_equal(json_string_value(at(line, "end")), "upstream_abort");
    assert_string_equal(json_string_value(at(line, "response.choices.0.message.content")), "h");
    json_decref(line);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trace_tells_what_happened_to_each_call),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
