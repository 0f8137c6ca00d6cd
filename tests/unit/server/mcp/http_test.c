/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/mcp/http.h"

#include "base/json.h"
#include "base/mem.h"
#include "net/http_client.h"
#include "tests/unit/net/net_testing.h"
#include "tests/unit/rollout/fake_sandbox.h"
#include "tests/unit/server/tool/bench.h"

#define INITIALIZE                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"0\"}}}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"
#define CALL(more)                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/"                                            \
    "call\",\"params\":{\"name\":\"run_rollout\","                                                 \
    "\"arguments\":{\"base_url\":\"http://127.0.0.1:9/v1\",\"model\":\"m\",\"instruction\":"       \
    "\"x\"}" more "}}"
#define WITH_PROGRESS ",\"_meta\":{\"progressToken\":\"p\"}"

static struct bench *bench;
static struct server *server;
static struct mcp_http *http;

static void on_request(struct exchange *x, void *arg) {
    (void)arg;
    mcp_http_request(http, x);
}

static int set_up(void **state) {
    struct err err = {0};
    int r = bench_set_up(state);
    bench = *state;
    bench_open(bench);
    struct mcp_http_options o = {.loop = bench->loop, .tools = bench->box};
    assert_ok(mcp_http_new(&o, &http, &err), &err);
    struct server_options s = {.on_request = on_request};
    assert_ok(server_new(bench->loop, &s, &server, &err), &err);
    return r;
}

static void free_http(void *arg) {
    (void)arg;
    mcp_http_free(http);
}

static bool no_calls(void *arg) {
    (void)arg;
    return tool_box_calls(bench->box) == 0;
}

static int take_down(void **state) {
    loop_call(bench->loop, free_http, NULL);
    server_free(server);
    assert_true(test_wait(bench->loop, no_calls, NULL));
    return bench_take_down(state);
}

/* One request; `session` and `more` (a further header) may be NULL. */
static int ask_as(const char *method, const char *session, const char *more, const char *body,
                  struct http_answer *out) {
    struct err err = {0};
    AUTO_FREE char *url = mem_printf("http://127.0.0.1:%u/mcp", server_port(server));
    AUTO_FREE char *field = session ? mem_printf("Mcp-Session-Id: %s", session) : NULL;
    const char *headers[] = {"Content-Type: application/json",
                             "Accept: application/json, text/event-stream",
                             field ? field : "X-None: x", more, NULL};
    *out = (struct http_answer){0};
    assert_ok(http_call(
                  &(struct http_call){
                      .method = method, .url = url, .headers = headers, .body = sv_from(body)},
                  out, &err),
              &err);
    return out->status;
}

static int status_of(const char *method, const char *session, const char *more, const char *body) {
    struct http_answer a;
    int status = ask_as(method, session, more, body, &a);
    http_answer_deinit(&a);
    return status;
}

/* Begins a session; gives its id. */
static const char *begin(void) {
    static char id[64];
    struct http_answer a;
    assert_int_equal(ask_as("POST", NULL, NULL, INITIALIZE, &a), 200);
    const char *at = strstr(buf_cstr(&a.head), "Mcp-Session-Id: ");
    assert_non_null(at);
    at += strlen("Mcp-Session-Id: ");
    snprintf(id, sizeof id, "%.*s", (int)strcspn(at, "\r\n"), at);
    assert_int_equal(strlen(id), 32);
    assert_non_null(strstr(buf_cstr(&a.body), "\"protocolVersion\":\"2025-06-18\""));
    http_answer_deinit(&a);
    return id;
}

static void a_session_begins_is_used_and_ends(void **state) {
    (void)state;
    const char *id = begin();
    assert_int_equal(status_of("POST", id, "MCP-Protocol-Version: 2025-06-18",
                               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"),
                     202);
    assert_int_equal(status_of("GET", id, NULL, ""), 405);
    struct http_answer a;
    assert_int_equal(ask_as("POST", id, NULL, PING, &a), 200);
    assert_string_equal(buf_cstr(&a.body), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    http_answer_deinit(&a);
    assert_int_equal(status_of("DELETE", id, NULL, ""), 200);
    assert_int_equal(status_of("POST", id, NULL, PING), 404);
    assert_int_equal(status_of("DELETE", id, NULL, ""), 404);
}

static void what_does_not_fit_has_its_status(void **state) {
    (void)state;
    const char *id = begin();
    assert_int_equal(status_of("POST", "0123", NULL, PING), 404);
    assert_int_equal(status_of("DELETE", NULL, NULL, ""), 400);
    assert_int_equal(status_of("PUT", id, NULL, PING), 405);
    assert_int_equal(status_of("POST", id, "MCP-Protocol-Version: 1999-01-01", PING), 400);
    struct err err = {0};
    AUTO_FREE char *url = mem_printf("http://127.0.0.1:%u/mcp", server_port(server));
    const char *headers[] = {"Content-Type: text/plain", NULL};
    struct http_answer a = {0};
    assert_ok(
        http_call(&(struct http_call){.url = url, .headers = headers, .body = SV(PING)}, &a, &err),
        &err);
    assert_int_equal(a.status, 415);
    http_answer_deinit(&a);
    /* A stale session's id does not keep a client from beginning anew. */
    assert_int_equal(status_of("POST", "0123", NULL, INITIALIZE), 200);
}

static void without_a_session_it_is_openenv_s(void **state) {
    (void)state;
    struct http_answer a;
    assert_int_equal(ask_as("POST", NULL, NULL, "{}", &a), 200);
    assert_non_null(strstr(buf_cstr(&a.body), "\"id\":null"));
    assert_non_null(strstr(buf_cstr(&a.body), "-32600"));
    http_answer_deinit(&a);
    assert_int_equal(ask_as("POST", NULL, NULL, "not json", &a), 200);
    assert_non_null(strstr(buf_cstr(&a.body), "-32700"));
    http_answer_deinit(&a);
    assert_int_equal(
        ask_as("POST", NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\"}", &a),
        200);
    assert_non_null(strstr(buf_cstr(&a.body), "\"run_rollout\""));
    http_answer_deinit(&a);
    assert_int_equal(ask_as("POST", NULL, NULL, CALL(WITH_PROGRESS), &a), 200);
    assert_non_null(strstr(buf_cstr(&a.head), "Content-Type: application/json"));
    assert_non_null(strstr(buf_cstr(&a.body), "\"is_error\":false"));
    http_answer_deinit(&a);
}

static void a_call_with_progress_is_a_stream_of_events(void **state) {
    (void)state;
    struct http_answer a;
    const char *id = begin();
    assert_int_equal(ask_as("POST", id, NULL, CALL(WITH_PROGRESS), &a), 200);
    assert_non_null(strstr(buf_cstr(&a.head), "Content-Type: text/event-stream"));
    const char *body = buf_cstr(&a.body);
    assert_true(sv_starts_with(buf_sv(&a.body), SV("event: message\ndata: {")));
    assert_non_null(strstr(body, "\"progressToken\":\"p\",\"progress\":1,"));
    const char *last = strstr(body, "data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{");
    assert_non_null(last);
    assert_null(strstr(last, "progress\":"));
    assert_true(sv_ends_with(buf_sv(&a.body), SV("}\n\n")));
    http_answer_deinit(&a);
}

static void a_call_without_progress_is_one_answer(void **state) {
    (void)state;
    struct http_answer a;
    const char *id = begin();
    assert_int_equal(ask_as("POST", id, NULL, CALL(""), &a), 200);
    assert_non_null(strstr(buf_cstr(&a.head), "Content-Type: application/json"));
    assert_non_null(strstr(buf_cstr(&a.body), "\"isError\":false"));
    http_answer_deinit(&a);
}

/* Sends a call with progress whose agent goes on; gives the connection, once the agent runs. */
static int call_that_goes_on(const char *id, struct buf *got) {
    fake.agent_goes_on = true;
    static const char body[] = CALL(WITH_PROGRESS);
    AUTO_FREE char *request =
        mem_printf("POST /mcp HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: %s\r\nAccept: "
                   "text/event-stream\r\nContent-Type: application/json\r\nContent-Length: "
                   "%zu\r\n\r\n%s",
                   id, sizeof body - 1, body);
    int fd = test_connect(server_port(server));
    test_send(fd, sv_from(request));
    test_read_until(fd, got, "agent running");
    return fd;
}

static void a_cancelled_call_s_stream_ends_without_an_answer(void **state) {
    (void)state;
    AUTO_BUF struct buf got = {0};
    const char *id = begin();
    int fd = call_that_goes_on(id, &got);
    assert_int_equal(status_of("POST", id, NULL,
                               "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
                               "\"params\":{\"requestId\":2}}"),
                     202);
    test_read_until(fd, &got, "\r\n0\r\n\r\n");
    assert_null(strstr(buf_cstr(&got), "\"id\":2"));
    assert_true(test_wait(bench->loop, no_calls, NULL));
    assert_int_equal(fake.alive, 0);
    close(fd);
}

static void a_client_that_leaves_ends_its_call(void **state) {
    (void)state;
    AUTO_BUF struct buf got = {0};
    int fd = call_that_goes_on(begin(), &got);
    test_reset(fd);
    assert_true(test_wait(bench->loop, no_calls, NULL));
    assert_int_equal(fake.alive, 0);
}

static void a_session_s_end_ends_its_calls(void **state) {
    (void)state;
    AUTO_BUF struct buf got = {0};
    const char *id = begin();
    int fd = call_that_goes_on(id, &got);
    assert_int_equal(status_of("DELETE", id, NULL, ""), 200);
    test_read_until(fd, &got, "\r\n0\r\n\r\n");
    assert_true(test_wait(bench->loop, no_calls, NULL));
    close(fd);
}

static void a_server_s_end_ends_what_is_open(void **state) {
    (void)state;
    AUTO_BUF struct buf got = {0};
    (void)call_that_goes_on(begin(), &got); /* take_down has the rest. */
}

static void the_session_unused_longest_makes_room(void **state) {
    (void)state;
    char first[64];
    char second[64];
    snprintf(first, sizeof first, "%s", begin());
    snprintf(second, sizeof second, "%s", begin());
    for (int i = 2; i < MCP_HTTP_SESSIONS_MAX; i++) {
        (void)begin();
    }
    assert_int_equal(status_of("POST", first, NULL, PING), 200);
    (void)begin();
    assert_int_equal(status_of("POST", first, NULL, PING), 200);
    assert_int_equal(status_of("POST", second, NULL, PING), 404);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)
static const struct CMUnitTest tests[] = {
    TEST(a_session_begins_is_used_and_ends),
    TEST(what_does_not_fit_has_its_status),
    TEST(without_a_session_it_is_openenv_s),
    TEST(a_call_with_progress_is_a_stream_of_events),
    TEST(a_call_without_progress_is_one_answer),
    TEST(a_cancelled_call_s_stream_ends_without_an_answer),
    TEST(a_client_that_leaves_ends_its_call),
    TEST(a_session_s_end_ends_its_calls),
    TEST(a_server_s_end_ends_what_is_open),
    TEST(the_session_unused_longest_makes_room),
};

RUN_TESTS(tests)
