/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <string.h>
#include <sys/socket.h>

static void answer_models(struct engine_request *r, void *arg) {
    bool *has_models = arg;
    if (sv_find(r->head, SV("/models")) != (size_t)-1) {
        engine_json(r, *has_models ? 200 : 404, *has_models ? "{\"data\":[1]}" : "nope");
    } else {
        engine_json(r, 200, "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"}}]}");
    }
}

static void with_model(struct gateway_session_options *o) {
    o->model_override = "the-model";
}

static struct answer ask(struct fixture *f, const char *method, const char *path, const char *token,
                         const char *body) {
    AUTO_BUF struct buf b = {0};
    struct agent a = agent_connect_tcp(f->port);
    assert_int_equal(buf_addf(&b, "%s %s HTTP/1.1\r\nHost: x\r\n", method, path), 0);
    if (token) {
        assert_int_equal(buf_addf(&b, "authorization: bearer %s\r\n", token), 0);
    }
    assert_int_equal(buf_addf(&b, "Content-Length: %zu\r\n\r\n%s", strlen(body), body), 0);
    agent_send(&a, buf_sv(&b));
    struct answer r = agent_read(&a);
    agent_close(&a);
    return r;
}

static void expect(struct fixture *f, const char *method, const char *path, const char *token,
                   const char *body, int status, const char *words) {
    struct answer r = ask(f, method, path, token, body);
    if (r.status != status || !strstr(buf_cstr(&r.body), words)) {
        fail_msg("%s %s: want %d '%s', got %d '%s'", method, path, status, words, r.status,
                 buf_cstr(&r.body));
    }
    answer_deinit(&r);
}

static void each_request_goes_where_it_belongs(void **state) {
    bool has_models = true;
    struct fixture f;
    char path[128];
    (void)state;
    fixture_open(&f, answer_models, &has_models, with_model);
    const char *token = gateway_session_token(f.session);
    expect(&f, "GET", "/healthz", NULL, "", 200, "{\"status\":\"ok\"}");
    expect(&f, "POST", "/v1/chat/completions", NULL, "{}", 401, "unknown api key");
    expect(&f, "POST", "/v1/chat/completions", "wrong", "{}", 401, "unknown api key");
    expect(&f, "POST", "/s/wrong/v1/chat/completions", token, "{}", 401, "unknown api key");
    expect(&f, "POST", "/v1/chat/completions", token, "{}", 200, "\"choices\"");
    expect(&f, "POST", "/chat/completions", token, "{}", 200, "\"choices\"");
    snprintf(path, sizeof path, "/s/%s/v1/chat/completions?x=1", token);
    expect(&f, "POST", path, "something-else", "{}", 200, "\"choices\"");
    snprintf(path, sizeof path, "/s/%s/v1/models", token);
    expect(&f, "GET", path, NULL, "", 200, "{\"data\":[1]}");
    expect(&f, "GET", "/v1/models", token, "", 200, "{\"data\":[1]}");
    has_models = false;
    expect(&f, "GET", "/v1/models", token, "", 200, "\"id\":\"the-model\"");
    expect(&f, "GET", "/v1/chat/completions", token, "", 405, "method not allowed");
    expect(&f, "POST", "/v1/embeddings", token, "{}", 404, "no such path");
    snprintf(path, sizeof path, "/s/%s", token);
    expect(&f, "POST", path, NULL, "{}", 404, "no such path");
    expect(&f, "POST", "/v1/chat/completions", token, "{\"a\":", 400,
           "{\"error\":\"invalid json body\"}");
    expect(&f, "POST", "/v1/chat/completions", token, "", 400, "invalid json body");
    fixture_close(&f);
}

static void requests_in_a_row_are_answered_in_a_row(void **state) {
    bool has_models = true;
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_models, &has_models, NULL);
    struct agent a = agent_connect_unix(f.unix_path);
    AUTO_BUF struct buf b = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(buf_adds(&b, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                                      "Content-Length: 2\r\n\r\n{}"
                                      "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
                                      "HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"),
                         0);
    }
    assert_int_equal(buf_adds(&b, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
                     0);
    agent_send(&a, buf_sv(&b));
    AUTO_BUF struct buf all = {0};
    char bytes[4096];
    ssize_t n;
    while ((n = recv(a.fd, bytes, sizeof bytes, 0)) > 0) {
        assert_int_equal(buf_add(&all, bytes, (size_t)n), 0);
    }
    unsigned calls = 0;
    unsigned health = 0;
    for (const char *p = buf_cstr(&all); (p = strstr(p, "HTTP/1.1 200")); p++) {
        health++;
    }
    for (const char *p = buf_cstr(&all); (p = strstr(p, "\"choices\"")); p++) {
        calls++;
    }
    assert_int_equal(calls, 3);
    assert_int_equal(health, 10);
    assert_null(strstr(buf_cstr(&all), "\"data\""));
    agent_close(&a);
    fixture_close(&f);
}

static void bad_upstreams_are_refused_at_the_opening(void **state) {
    bool has_models = true;
    struct fixture f;
    struct err e = {0};
    struct gateway_session *s;
    (void)state;
    fixture_open(&f, answer_models, &has_models, NULL);
    struct gateway_session_options o = {.name = "r-1.1", .upstream_url = "ftp://x/v1"};
    assert_err(gateway_session_open(f.gateway, &o, &s, &e), ERR_INPUT, &e, "upstream");
    fixture_close(&f);
}

static void a_base_without_v1_gets_one(void **state) {
    static const char *const bases[] = {"", "/", "/v1", "/v1/"};
    (void)state;
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        bool has_models = true;
        struct fixture f;
        struct err e = {0};
        struct gateway_session *s;
        char url[128];
        fixture_open(&f, answer_models, &has_models, NULL);
        snprintf(url, sizeof url, "%.*s%s", (int)(strlen(engine_url(f.engine)) - 3),
                 engine_url(f.engine), bases[i]);
        struct gateway_session_options o = {.name = "r-1.1", .upstream_url = url};
        assert_ok(gateway_session_open(f.gateway, &o, &s, &e), &e);
        expect(&f, "POST", "/v1/chat/completions", gateway_session_token(s), "{}", 200, "choices");
        assert_ok(gateway_session_close(s, deadline_in_s(1), &e), &e);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_goes_where_it_belongs),
        cmocka_unit_test(requests_in_a_row_are_answered_in_a_row),
        cmocka_unit_test(bad_upstreams_are_refused_at_the_opening),
        cmocka_unit_test(a_base_without_v1_gets_one),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
