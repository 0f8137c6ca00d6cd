/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/result.h"

#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static const struct tool_result done = {
    .outcome = TOOL_DONE, .text = {"{\"a\":1}", 7}, .quoted = {"\"{\\\"a\\\":1}\"", 11}};
static const struct tool_result wrong = {
    .outcome = TOOL_INVALID, .text = {"mode: bad", 9}, .quoted = {"\"mode: bad\"", 11}};
static const struct tool_result busy = {
    .outcome = TOOL_FAILED, .text = {"busy", 4}, .quoted = {"\"busy\"", 6}};

static void observation_is(const struct tool_result *r, double timed_out_s, const char *want) {
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    assert_ok(result_observation(r, timed_out_s, &out, &err), &err);
    assert_string_equal(buf_cstr(&out), want);
}

static void an_observation_is_as_fastmcp_has_it(void **state) {
    (void)state;
    observation_is(&done, 0,
                   "{\"tool_name\":\"run_rollout\",\"result\":{\"content\":[{\"type\":\"text\","
                   "\"text\":\"{\\\"a\\\":1}\",\"annotations\":null,\"meta\":null}],"
                   "\"structured_content\":{\"result\":\"{\\\"a\\\":1}\"},\"meta\":null,"
                   "\"data\":\"{\\\"a\\\":1}\",\"is_error\":false},\"error\":null}");
}

static void an_observation_s_error_has_exactly_type_and_message(void **state) {
    (void)state;
    observation_is(&wrong, 0,
                   "{\"tool_name\":\"run_rollout\",\"result\":null,\"error\":{\"error_type\":"
                   "\"invalid_args\",\"message\":\"mode: bad\"}}");
    observation_is(&busy, 0,
                   "{\"tool_name\":\"run_rollout\",\"result\":null,\"error\":{\"error_type\":"
                   "\"execution_error\",\"message\":\"busy\"}}");
    observation_is(NULL, 1.5,
                   "{\"tool_name\":\"run_rollout\",\"result\":null,\"error\":{\"error_type\":"
                   "\"timeout\",\"message\":\"Tool 'run_rollout' timed out after 1.5 seconds\"}}");
}

/* A text of so many bytes, quoted. */
static struct tool_result large(struct buf *text, size_t n) {
    assert_int_equal(buf_reserve(text, n), 0);
    memset(text->data, 'x', n);
    text->len = n;
    text->data[0] = text->data[n - 1] = '"';
    return (struct tool_result){.outcome = TOOL_DONE, .quoted = buf_sv(text)};
}

static void a_large_result_goes_without_its_further_copies(void **state) {
    (void)state;
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf out = {0};
    struct err err = {0};
    struct tool_result r = large(&text, RESULT_SMALL_MAX + 1);
    assert_ok(result_object(&r, /* for_openenv= */ false, &out, &err), &err);
    assert_true(out.len < text.len + 1024);
    buf_reset(&out);
    assert_ok(result_object(&r, /* for_openenv= */ true, &out, &err), &err);
    assert_true(out.len < 2 * text.len + 1024);
    AUTO_JSON json_t *value = NULL;
    assert_ok(json_parse(buf_sv(&out), "result", &value, &err), &err);
    assert_null(json_object_get(value, "structuredContent"));
    assert_non_null(json_object_get(value, "data"));
    assert_non_null(json_object_get(value, "content"));
    buf_reset(&out);
    assert_ok(result_observation(&r, 0, &out, &err), &err);
    assert_true(out.len < 2 * text.len + 1024);
    AUTO_JSON json_t *observation = NULL;
    assert_ok(json_parse(buf_sv(&out), "observation", &observation, &err), &err);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_observation_is_as_fastmcp_has_it),
    cmocka_unit_test(an_observation_s_error_has_exactly_type_and_message),
    cmocka_unit_test(a_large_result_goes_without_its_further_copies),
};

RUN_TESTS(tests)
