/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/url.h"

#include "tests/testing.h"

struct row {
    const char *text;
    bool tls;
    const char *host;
    int port;
    const char *path;
    const char *target; /* Joined with /chat/completions. */
    const char *field;  /* The Host field. */
};

static const struct row good[] = {
    {"http://127.0.0.1:7000/v1", false, "127.0.0.1", 7000, "/v1", "/v1/chat/completions",
     "127.0.0.1:7000"},
    {"https://Api.Example.COM", true, "api.example.com", 443, "", "/chat/completions",
     "api.example.com"},
    {"HTTP://h:80/v1/", false, "h", 80, "/v1/", "/v1/chat/completions", "h"},
    {"http://h:443", false, "h", 443, "", "/chat/completions", "h:443"},
    {"https://h/openai?api-version=1&x=2", true, "h", 443, "/openai",
     "/openai/chat/completions?api-version=1&x=2", "h"},
    {"http://[::1]:8000/v1", false, "::1", 8000, "/v1", "/v1/chat/completions", "[::1]:8000"},
    {"http://[2001:db8::1]", false, "2001:db8::1", 80, "", "/chat/completions", "[2001:db8::1]"},
    {"http://h?q", false, "h", 80, "", "/chat/completions?q", "h"},
    {"http://h/a%20b//c", false, "h", 80, "/a%20b//c", "/a%20b//c/chat/completions", "h"},
};

static void urls_are_taken_apart_and_joined_with_a_route(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const struct row *w = &good[i];
        struct url u = {0};
        struct err err = {0};
        AUTO_BUF struct buf target = {0};
        AUTO_BUF struct buf field = {0};
        assert_ok(url_parse(sv_from(w->text), &u, &err), &err);
        assert_int_equal(u.tls, w->tls);
        assert_string_equal(u.host, w->host);
        assert_int_equal(u.port, w->port);
        assert_string_equal(u.path, w->path);
        assert_int_equal(url_join(&u, SV("/chat/completions"), &target), 0);
        assert_string_equal(buf_cstr(&target), w->target);
        assert_int_equal(url_put_host(&u, &field), 0);
        assert_string_equal(buf_cstr(&field), w->field);
        url_deinit(&u);
    }
}

static void bad_urls_are_refused_with_the_reason(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"h/v1", "http://"},         {"ftp://h/", "http://"},       {"", "http://"},
        {"http://", "no host"},      {"http://:80/", "no host"},    {"http://h:0/", "port"},
        {"http://h:65536/", "port"}, {"http://h:/", "port"},        {"http://h:8x/", "port"},
        {"http://h/#x", "fragment"}, {"http://h /", "blank"},       {"http://h/\r\n", "blank"},
        {"http://h/\x80", "blank"},  {"http://[::1/", "without"},   {"http://[::g]/", "IPv6"},
        {"http://[::1]x/", "port"},  {"http://a..b/", "host name"}, {"http://-a/", "host name"},
        {"http://h\\/", "blank"},    {"http://a,b/", "host name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct url u = {0};
        struct err err = {0};
        assert_err(url_parse(sv_from(bad[i][0]), &u, &err), ERR_INPUT, &err, bad[i][1]);
        assert_null(u.host);
    }
}

static void a_password_in_a_url_is_refused_and_not_repeated(void **state) {
    (void)state;
    struct url u = {0};
    struct err err = {0};
    assert_err(url_parse(SV("https://me:hunter2@h/v1"), &u, &err), ERR_INPUT, &err, "password");
    assert_null(strstr(err.msg, "hunter2"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(urls_are_taken_apart_and_joined_with_a_route),
    cmocka_unit_test(bad_urls_are_refused_with_the_reason),
    cmocka_unit_test(a_password_in_a_url_is_refused_and_not_repeated),
};

RUN_TESTS(tests)
