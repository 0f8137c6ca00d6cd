/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/rpc.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tests/testing.h"
#include "tests/unit/rollout/fake_sandbox.h"
#include "tests/unit/server/tool/bench.h"

#define PATIENCE_MS 20000
#define MODEL "\"base_url\": \"http://127.0.0.1:9/v1\", \"model\": \"m\""
#define CALL(id, more)                                                                             \
    "{\"jsonrpc\": \"2.0\", \"id\": " id ", \"method\": \"tools/call\", \"params\": {\"name\": "   \
    "\"run_rollout\", \"arguments\": {" MODEL ", \"instruction\": \"x\", \"task_id\": \"t\"}" more \
    "}}"

/* A message's way: what came back. */
struct answer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int answers;
    struct buf text;
    struct buf notes; /* One a line. */
};

static struct bench *bench;
static struct rpc *rpc;

static void on_note(void *arg, struct sv message) {
    struct answer *a = arg;
    pthread_mutex_lock(&a->lock);
    BUG_IF(a->answers > 0);
    BUG_IF(buf_add_sv(&a->notes, message) < 0 || buf_addc(&a->notes, '\n') < 0);
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static void on_answer(void *arg, struct sv message) {
    struct answer *a = arg;
    pthread_mutex_lock(&a->lock);
    a->answers++;
    BUG_IF(buf_add_sv(&a->text, message) < 0);
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

struct feeding {
    struct sv text;
    struct answer *answer;
};

static void feed_on_loop(void *arg) {
    struct feeding *f = arg;
    struct rpc_sink sink = {on_note, on_answer, f->answer};
    rpc_feed(rpc, f->text, &sink);
}

static void feed(struct sv text, struct answer *a) {
    *a = (struct answer){0};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    loop_call(bench->loop, feed_on_loop, &(struct feeding){text, a});
}

static bool wait_for(struct answer *a, const char *note) {
    deadline_ms until = deadline_in_ms(PATIENCE_MS);
    pthread_mutex_lock(&a->lock);
    while (!(note && strstr(buf_cstr(&a->notes), note)) && !a->answers && !deadline_passed(until)) {
        thread_wait(&a->changed, &a->lock, until);
    }
    bool seen = note ? strstr(buf_cstr(&a->notes), note) != NULL : a->answers == 1;
    pthread_mutex_unlock(&a->lock);
    return seen;
}

static void answer_deinit(struct answer *a) {
    buf_deinit(&a->text);
    buf_deinit(&a->notes);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
}

static json_t *parsed(const struct answer *a) {
    json_t *value = NULL;
    struct err err = {0};
    assert_ok(json_parse(buf_sv(&a->text), "answer", &value, &err), &err);
    return value;
}

/* The answer to a message that is answered at once; NULL: nothing was said. */
static json_t *ask(const char *text) {
    struct answer a;
    feed(sv_from(text), &a);
    assert_int_equal(a.answers, 1);
    json_t *value = a.text.len > 0 ? parsed(&a) : NULL;
    answer_deinit(&a);
    return value;
}

static void open_face(enum rpc_face face, const struct rpc_hooks *hooks) {
    struct err err = {0};
    if (!bench->box) {
        bench_open(bench);
    }
    struct rpc_options o = {bench->box, bench->loop, face, hooks, NULL};
    assert_ok(rpc_new(&o, &rpc, &err), &err);
}

static void free_on_loop(void *arg) {
    (void)arg;
    rpc_free(rpc);
    rpc = NULL;
}

static int set_up(void **state) {
    int r = bench_set_up(state);
    bench = *state;
    return r;
}

static int take_down(void **state) {
    loop_call(bench->loop, free_on_loop, NULL);
    deadline_ms until = deadline_in_ms(PATIENCE_MS);
    while (bench->box && tool_box_calls(bench->box) > 0 && !deadline_passed(until)) {
        clock_sleep_ms(5);
    }
    return bench_take_down(state);
}

static void assert_error(const char *text, int code, const char *words) {
    AUTO_JSON json_t *value = ask(text);
    const json_t *error = json_object_get(value, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    if (json_integer_value(json_object_get(error, "code")) != code || !message ||
        !strstr(message, words)) {
        AUTO_BUF struct buf got = {0};
        assert_true(value && json_compact(value, &got) == 0);
        fail_msg("%s: want %d '%s', got %s", text, code, words, buf_cstr(&got));
    }
    assert_null(json_object_get(value, "result"));
}

/* No null anywhere but under `meta`, which MCP's schemas don't look at. */
static void assert_no_null(const json_t *value) {
    const char *key;
    json_t *inner;
    size_t i;
    assert_false(json_is_null(value));
    json_object_foreach((json_t *)value, key, inner) {
        if (strcmp(key, "meta") != 0 && strcmp(key, "default") != 0) {
            assert_no_null(inner);
        }
    }
    json_array_foreach(value, i, inner) {
        assert_no_null(inner);
    }
}

static const char *version_for(const char *asked) {
    static char got[32];
    AUTO_FREE char *text = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\","
                                      "\"params\":{\"protocolVersion\":\"%s\",\"capabilities\":{},"
                                      "\"clientInfo\":{\"name\":\"t\",\"version\":\"0\"}}}",
                                      asked);
    AUTO_JSON json_t *value = ask(text);
    const json_t *result = json_object_get(value, "result");
    assert_no_null(value);
    assert_int_equal(json_integer_value(json_object_get(value, "id")), 0);
    assert_true(json_is_object(json_object_get(json_object_get(result, "capabilities"), "tools")));
    const json_t *info = json_object_get(result, "serverInfo");
    assert_string_equal(json_string_value(json_object_get(info, "name")), "snaffle");
    snprintf(got, sizeof got, "%s", json_string_value(json_object_get(result, "protocolVersion")));
    return got;
}

static void the_client_s_version_is_taken_if_it_is_known(void **state) {
    (void)state;
    open_face(RPC_MCP, NULL);
    assert_false(rpc_is_initialized(rpc));
    assert_string_equal(version_for("2025-03-26"), "2025-03-26");
    assert_true(rpc_is_initialized(rpc));
    assert_string_equal(version_for("2024-11-05"), "2024-11-05");
    assert_string_equal(version_for("2025-11-25"), "2025-11-25");
    assert_string_equal(version_for("2031-01-01"), "2025-11-25");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}", RPC_INVALID_PARAMS,
                 "protocolVersion");
}

static void a_ping_is_answered_under_its_own_id(void **state) {
    (void)state;
    open_face(RPC_MCP, NULL);
    AUTO_JSON json_t *number = ask("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}");
    AUTO_JSON json_t *want = json_pack("{s:s, s:i, s:{}}", "jsonrpc", "2.0", "id", 7, "result");
    assert_true(json_equal(number, want));
    AUTO_JSON json_t *text =
        ask("{\"jsonrpc\":\"2.0\",\"id\":\"a\\u0000\\\"b\",\"method\":\"ping\",\"params\":{}}");
    const json_t *id = json_object_get(text, "id");
    assert_int_equal(json_string_length(id), 4);
    assert_memory_equal(json_string_value(id), "a\0\"b", 4);
}

static void notifications_and_answers_are_met_with_silence(void **state) {
    (void)state;
    open_face(RPC_MCP, NULL);
    static const char *const silent[] = {
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/never/heard/of\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"run_rollout\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"x\"}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(silent); i++) {
        AUTO_JSON json_t *value = ask(silent[i]);
        assert_null(value);
    }
    assert_int_equal(tool_box_calls(bench->box), 0);
}

static void what_is_no_request_is_an_error_with_its_code(void **state) {
    (void)state;
    open_face(RPC_MCP, NULL);
    assert_error("", RPC_PARSE_ERROR, "Parse error");
    assert_error("not json", RPC_PARSE_ERROR, "Parse error");
    assert_error("{\"a\":1,\"a\":2}", RPC_PARSE_ERROR, "Parse error");
    assert_error("[]", RPC_INVALID_REQUEST, "no batches");
    assert_error("7", RPC_INVALID_REQUEST, "one object");
    assert_error("{}", RPC_INVALID_REQUEST, "jsonrpc");
    assert_error("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", RPC_INVALID_REQUEST, "2.0");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID_REQUEST, "'method'");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", RPC_INVALID_REQUEST, "'method'");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", RPC_INVALID_REQUEST,
                 "'id'");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", RPC_INVALID_REQUEST,
                 "'id'");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", RPC_INVALID_REQUEST,
                 "'id'");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[1]}",
                 RPC_INVALID_REQUEST, "'params'");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}",
                 RPC_METHOD_NOT_FOUND, "Method not found: resources/list");
    AUTO_JSON json_t *value = ask("not json");
    assert_null(json_object_get(value, "id"));
    assert_no_null(value);
}

static void a_parse_error_does_not_repeat_the_message(void **state) {
    (void)state;
    open_face(RPC_MCP, NULL);
    AUTO_JSON json_t *value = ask("{\"api_key\": sk-secret}");
    AUTO_BUF struct buf text = {0};
    assert_int_equal(json_compact(value, &text), 0);
    assert_null(strstr(buf_cstr(&text), "sk-secret"));
}

static void the_list_has_the_one_tool_and_no_null(void **state) {
    (void)state;
    open_face(RPC_MCP, NULL);
    AUTO_JSON json_t *value = ask("{\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"tools/list\"}");
    const json_t *tools = json_object_get(json_object_get(value, "result"), "tools");
    assert_int_equal(json_array_size(tools), 1);
    const json_t *tool = json_array_get(tools, 0);
    assert_string_equal(json_string_value(json_object_get(tool, "name")), "run_rollout");
    assert_true(json_is_string(json_object_get(tool, "description")));
    assert_true(json_is_object(json_object_get(tool, "inputSchema")));
    assert_true(
        json_equal(json_object_get(tool, "inputSchema"), json_object_get(tool, "input_schema")));
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":"
                 "\"x\"}}",
                 RPC_INVALID_PARAMS, "cursor");
}

static void a_call_without_a_good_name_is_an_error(void **state) {
    (void)state;
    open_face(RPC_MCP, NULL);
#define ASK(params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":" params "}"
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}", RPC_INVALID_PARAMS,
                 "'name'");
    assert_error(ASK("{}"), RPC_INVALID_PARAMS, "'name'");
    assert_error(ASK("{\"name\":7}"), RPC_INVALID_PARAMS, "'name'");
    assert_error(ASK("{\"name\":\"step\"}"), RPC_INVALID_PARAMS, "Unknown tool: 'step'");
    assert_error(ASK("{\"name\":\"run_rollout\",\"arguments\":[]}"), RPC_INVALID_PARAMS,
                 "'arguments'");
}

static void a_call_gives_one_result_for_both_worlds(void **state) {
    (void)state;
    struct answer a;
    open_face(RPC_MCP, NULL);
    feed(SV(CALL("\"c1\"", "")), &a);
    assert_true(wait_for(&a, NULL));
    AUTO_JSON json_t *value = parsed(&a);
    assert_string_equal(json_string_value(json_object_get(value, "id")), "c1");
    const json_t *result = json_object_get(value, "result");
    const char *text = json_string_value(
        json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
    assert_non_null(text);
    assert_non_null(strstr(text, "\"task_id\":\"t\""));
    assert_true(json_is_false(json_object_get(result, "isError")));
    assert_true(json_is_false(json_object_get(result, "is_error")));
    assert_string_equal(json_string_value(json_object_get(result, "data")), text);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(result, "structuredContent"), "result")),
        text);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(result, "structured_content"), "result")),
        text);
    assert_no_null(value);
    assert_int_equal(a.notes.len, 0); /* No token, no progress. */
    answer_deinit(&a);
}

static void a_wrong_argument_is_a_result_that_says_so(void **state) {
    (void)state;
    struct answer a;
    open_face(RPC_MCP, NULL);
    feed(SV(ASK("{\"name\":\"run_rollout\",\"arguments\":{\"mode\":\"x\"}}")), &a);
    assert_true(wait_for(&a, NULL));
    AUTO_JSON json_t *value = parsed(&a);
    const json_t *result = json_object_get(value, "result");
    assert_true(json_is_true(json_object_get(result, "isError")));
    assert_non_null(strstr(buf_cstr(&a.text), "mode: 'x' is not known"));
    assert_no_null(value);
    answer_deinit(&a);
}

static void progress_is_told_under_the_client_s_token_and_rises(void **state) {
    (void)state;
    struct answer a;
    open_face(RPC_MCP, NULL);
    feed(SV(CALL("1", ", \"_meta\": {\"progressToken\": \"tok\"}")), &a);
    assert_true(wait_for(&a, NULL));
    double last = 0;
    int notes = 0;
    struct sv rest = buf_sv(&a.notes);
    while (rest.n > 0) {
        size_t n = sv_find(rest, SV("\n"));
        AUTO_JSON json_t *note = NULL;
        struct err err = {0};
        assert_ok(json_parse((struct sv){rest.p, n}, "note", &note, &err), &err);
        const json_t *params = json_object_get(note, "params");
        assert_string_equal(json_string_value(json_object_get(note, "method")),
                            "notifications/progress");
        assert_string_equal(json_string_value(json_object_get(params, "progressToken")), "tok");
        double progress = json_number_value(json_object_get(params, "progress"));
        assert_true(progress > last);
        assert_true(json_is_string(json_object_get(params, "message")));
        assert_null(json_object_get(params, "total"));
        last = progress;
        notes++;
        rest = sv_cut(rest, n + 1);
    }
    assert_true(notes >= 4);
    assert_non_null(strstr(buf_cstr(&a.notes), "agent running"));
    answer_deinit(&a);
}

static void a_cancelled_call_is_not_answered_and_frees_its_sandbox(void **state) {
    (void)state;
    struct answer a;
    fake.agent_goes_on = true;
    open_face(RPC_MCP, NULL);
    feed(SV(CALL("5", ", \"_meta\": {\"progressToken\": 1}")), &a);
    assert_true(wait_for(&a, "agent running"));
    assert_error(CALL("5", ""), RPC_INVALID_REQUEST, "in use");
    AUTO_JSON json_t *other = ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                                  "\"params\":{\"requestId\":\"5\"}}");
    assert_null(other); /* Another id: a string. */
    assert_int_equal(a.answers, 0);
    AUTO_JSON json_t *none = ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                                 "\"params\":{\"requestId\":5,\"reason\":\"enough\"}}");
    assert_null(none);
    assert_true(wait_for(&a, NULL));
    assert_int_equal(a.text.len, 0);
    assert_int_equal(fake.alive, 0);
    answer_deinit(&a);
}

static void abandon_on_loop(void *arg) {
    rpc_abandon(rpc, arg);
    assert_int_equal(rpc_calls(rpc), 1);
}

static void a_client_that_leaves_ends_its_call(void **state) {
    (void)state;
    struct answer a;
    fake.agent_goes_on = true;
    open_face(RPC_OPENENV, NULL);
    feed(SV(CALL("5", ", \"_meta\": {\"progressToken\": 1}")), &a);
    assert_true(wait_for(&a, "agent running"));
    loop_call(bench->loop, abandon_on_loop, &a);
    assert_true(wait_for(&a, NULL));
    assert_int_equal(a.text.len, 0);
    answer_deinit(&a);
}

static void a_session_s_end_ends_its_calls_and_tells_nobody(void **state) {
    (void)state;
    struct answer a;
    fake.agent_goes_on = true;
    open_face(RPC_MCP, NULL);
    feed(SV(CALL("5", ", \"_meta\": {\"progressToken\": 1}")), &a);
    assert_true(wait_for(&a, "agent running"));
    loop_call(bench->loop, free_on_loop, NULL);
    deadline_ms until = deadline_in_ms(PATIENCE_MS);
    while (tool_box_calls(bench->box) > 0 && !deadline_passed(until)) {
        clock_sleep_ms(5);
    }
    assert_int_equal(tool_box_calls(bench->box), 0);
    assert_int_equal(fake.alive, 0);
    assert_int_equal(a.answers, 0);
    answer_deinit(&a);
}

static void openenv_s_requests_are_strict_and_always_answered(void **state) {
    (void)state;
    open_face(RPC_OPENENV, NULL);
    assert_error("[]", RPC_PARSE_ERROR, "Parse error");
    assert_error("nope", RPC_PARSE_ERROR, "Parse error");
    assert_error("{}", RPC_INVALID_REQUEST, "jsonrpc");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"x\":1}",
                 RPC_INVALID_REQUEST, "are known");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":null}",
                 RPC_INVALID_REQUEST, "'params'");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}",
                 RPC_METHOD_NOT_FOUND, "initialize");
    assert_error(ASK("{\"name\":\"nope\"}"), RPC_INTERNAL, "Unknown tool: 'nope'");
    AUTO_JSON json_t *bad = ask("{}");
    assert_true(json_is_null(json_object_get(bad, "id")));
    assert_true(json_is_null(json_object_get(json_object_get(bad, "error"), "data")));
    AUTO_JSON json_t *list = ask("{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\",\"id\":null}");
    assert_true(json_is_null(json_object_get(list, "id")));
    assert_non_null(json_object_get(list, "result"));
    struct answer a;
    feed(SV(ASK("{\"name\":\"run_rollout\",\"arguments\":{\"mode\":\"x\"}}")), &a);
    assert_true(wait_for(&a, NULL));
    AUTO_JSON json_t *failed = parsed(&a);
    const json_t *error = json_object_get(failed, "error");
    assert_int_equal(json_integer_value(json_object_get(error, "code")), RPC_INTERNAL);
    answer_deinit(&a);
}

static int entered, left;

static bool hook_method(void *arg, struct rpc_request *q, struct sv method, const json_t *params) {
    (void)arg;
    (void)params;
    if (!sv_eq(method, SV("openenv/session/create"))) {
        return false;
    }
    rpc_answer(q, json_pack("{s:s}", "session_id", "s1"));
    return true;
}

static bool hook_enter(void *arg, struct rpc_request *q, bool is_call, const json_t *params) {
    (void)arg;
    const char *session = json_string_value(json_object_get(params, "session_id"));
    if (session && strcmp(session, "s1") != 0) {
        rpc_fail(q, RPC_INVALID_PARAMS, json_pack("{s:i}", "n", 1), "Unknown session_id: %s",
                 session);
        return false;
    }
    entered += is_call;
    return true;
}

static void hook_leave(void *arg, struct rpc_request *q, const struct tool_result *result) {
    (void)arg;
    (void)q;
    left += result->outcome == TOOL_DONE;
}

static const struct rpc_hooks hooks = {hook_method, hook_enter, hook_leave};

static void a_carrier_adds_methods_and_stands_at_the_door(void **state) {
    (void)state;
    struct answer a;
    entered = left = 0;
    open_face(RPC_OPENENV, &hooks);
    AUTO_JSON json_t *made =
        ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"openenv/session/create\",\"params\":{}}");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(made, "result"), "session_id")), "s1");
    assert_error("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"openenv/other\",\"params\":{}}",
                 RPC_METHOD_NOT_FOUND, "openenv/other");
    assert_error(ASK("{\"name\":\"run_rollout\",\"session_id\":\"s2\"}"), RPC_INVALID_PARAMS,
                 "Unknown session_id: s2");
    assert_int_equal(entered, 0);
    feed(SV(CALL("1", ", \"session_id\": \"s1\"")), &a);
    assert_true(wait_for(&a, NULL));
    assert_int_equal(entered, 1);
    assert_int_equal(left, 1);
    answer_deinit(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)
static const struct CMUnitTest tests[] = {
    TEST(the_client_s_version_is_taken_if_it_is_known),
    TEST(a_ping_is_answered_under_its_own_id),
    TEST(notifications_and_answers_are_met_with_silence),
    TEST(what_is_no_request_is_an_error_with_its_code),
    TEST(a_parse_error_does_not_repeat_the_message),
    TEST(the_list_has_the_one_tool_and_no_null),
    TEST(a_call_without_a_good_name_is_an_error),
    TEST(a_call_gives_one_result_for_both_worlds),
    TEST(a_wrong_argument_is_a_result_that_says_so),
    TEST(progress_is_told_under_the_client_s_token_and_rises),
    TEST(a_cancelled_call_is_not_answered_and_frees_its_sandbox),
    TEST(a_client_that_leaves_ends_its_call),
    TEST(a_session_s_end_ends_its_calls_and_tells_nobody),
    TEST(openenv_s_requests_are_strict_and_always_answered),
    TEST(a_carrier_adds_methods_and_stands_at_the_door),
};

RUN_TESTS(tests)
