/* SPDX-License-Identifier: BSD-3-Clause */
/* Heads: what belongs to a connection stays there, all else passes as it is spelled. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "fixture.h"

#define REQUEST "{\"model\":\"m\"}"

/* Sends the head as it stands, then REQUEST; `version` and `fields` are the agent's. */
static struct answer ask(struct fixture *f, const char *version, const char *fields) {
    AUTO_BUF struct buf b = {0};
    struct agent a = agent_connect_tcp(f->port);
    assert_int_equal(buf_addf(&b, "POST /s/%s/v1/chat/completions %s\r\nHost: gw\r\n%s\r\n%s",
                              gateway_session_token(f->session), version, fields, REQUEST),
                     0);
    agent_send(&a, buf_sv(&b));
    struct answer r = agent_read(&a);
    agent_close(&a);
    return r;
}

#define LENGTH "Content-Length: 13\r\n"

struct script {
    const char *answer; /* Byte for byte. */
    bool close;
    struct buf seen;
};

static void answer(struct engine_request *r, void *arg) {
    struct script *s = arg;
    buf_reset(&s->seen);
    assert_int_equal(buf_add_sv(&s->seen, r->head), 0);
    engine_puts(r, s->answer);
    r->close = s->close;
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

#define BODY "{\"choices\":[]}"
#define BODY_LENGTH "Content-Length: 14\r\n"

static void what_belongs_to_a_connection_stays_on_its_side(void **state) {
    static const char *const kept_back[] = {"Keep-Alive",
                                            "TE: ",
                                            "Trailer",
                                            "Upgrade: ",
                                            "Proxy-Authorization",
                                            "Proxy-Connection",
                                            "Proxy-Authenticate",
                                            "Proxy-Other",
                                            "X-Hop",
                                            "Y-Hop",
                                            "Transfer-Encoding",
                                            "Connection"};
    static const char fields[] =
        "Connection: keep-alive, X-Hop\r\nConnection: y-hop , TE\r\nKeep-Alive: timeout=5\r\n"
        "TE: trailers\r\nTrailer: X-Sum\r\nUpgrade: h2c\r\nProxy-Authorization: Basic eA==\r\n"
        "Proxy-Connection: keep-alive\r\nProxy-Authenticate: Basic\r\nProxy-Other: 1\r\n"
        "X-Hop: 1\r\nY-HOP: 2\r\nX-End: 1\r\n";
    AUTO_BUF struct buf head = {0};
    AUTO_BUF struct buf request = {0};
    struct fixture f;
    (void)state;
    assert_int_equal(buf_addf(&head, "HTTP/1.1 200 OK\r\n%s" BODY_LENGTH "\r\n" BODY, fields), 0);
    assert_int_equal(buf_addf(&request, "%s" LENGTH, fields), 0);
    struct script s = {.answer = buf_cstr(&head)};
    fixture_open(&f, answer, &s, without_edits);
    struct answer a = ask(&f, "HTTP/1.1", buf_cstr(&request));
    assert_int_equal(a.status, 200);
    for (size_t i = 0; i < sizeof kept_back / sizeof *kept_back; i++) {
        assert_null(strcasestr(buf_cstr(&s.seen), kept_back[i]));
        assert_null(strcasestr(buf_cstr(&a.head), kept_back[i]));
    }
    assert_non_null(strstr(buf_cstr(&s.seen), "\r\nX-End: 1\r\n"));
    assert_non_null(strstr(buf_cstr(&a.head), "\r\nX-End: 1\r\n"));
    answer_deinit(&a);
    fixture_close(&f);
    buf_deinit(&s.seen);
}

#define FIELDS                                                                                     \
    "set-cookie: a=1\r\nSet-Cookie:  b=2 \r\nx-request-id: Q\r\nX-RateLimit-Remaining: 7\r\n"      \
    "Retry-After: 3\r\nx-should-retry: false\r\nX-Empty:\r\nX-Odd: \xc3\xa9 \"q\" ; a=b\r\n"

static void status_reason_and_repeated_fields_pass_as_they_are(void **state) {
    static const char *const lines[] = {
        "200 OK",   "200 All  is (well)", "201 Created", "299 \xc3\xa9",  "302 Found",
        "404 Nope", "429 Slow",           "500 ",        "529 Overloaded"};
    struct fixture f;
    struct script s = {0};
    (void)state;
    struct buf heads[ARRAY_LEN(lines)] = {0}; /* The engine's thread reads them to its end. */
    fixture_open(&f, answer, &s, NULL);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        AUTO_BUF struct buf want = {0};
        assert_int_equal(
            buf_addf(&heads[i], "HTTP/1.1 %s\r\n" FIELDS BODY_LENGTH "\r\n" BODY, lines[i]), 0);
        assert_int_equal(buf_addf(&want, "HTTP/1.1 %s\r\n" FIELDS BODY_LENGTH "\r\n", lines[i]), 0);
        s.answer = buf_cstr(&heads[i]);
        struct answer a = ask(&f, "HTTP/1.1", LENGTH);
        assert_bytes(&a.head, buf_sv(&want));
        assert_bytes(&a.body, SV(BODY));
        answer_deinit(&a);
    }
    fixture_close(&f);
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        buf_deinit(&heads[i]);
    }
    buf_deinit(&s.seen);
}

static void error_bodies_flat_nested_html_and_empty_pass_word_for_word(void **state) {
    static const char *const bodies[] = {
        "{\"object\":\"error\",\"message\":\"m\",\"code\":400}",
        "{\"error\":{\"message\":\"m\",\"type\":null,\"code\":40001}}",
        "{\"error\":\"m\",\"error_type\":\"overloaded\"}",
        "<html>\r\n<head><title>502</title></head>\r\n</html>",
        "plain\ntext",
        "{\"error\":{\"mess",
        "",
    };
    static const int statuses[] = {400, 401, 404, 413, 422, 429, 500, 502, 503, 529};
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        for (size_t k = 0; k < 2 * sizeof statuses / sizeof *statuses; k++) {
            AUTO_BUF struct buf whole = {0};
            struct fixture f;
            assert_int_equal(buf_addf(&whole,
                                      "HTTP/1.1 %d R\r\nContent-Type: x/y\r\nContent-Length: %zu"
                                      "\r\n\r\n%s",
                                      statuses[k / 2], strlen(bodies[i]), bodies[i]),
                             0);
            struct script s = {.answer = buf_cstr(&whole)};
            fixture_open(&f, answer, &s, k % 2 ? without_edits : NULL);
            struct answer a = ask(&f, "HTTP/1.1", LENGTH);
            assert_true(a.has_end);
            assert_int_equal(buf_add_sv(&a.head, buf_sv(&a.body)), 0);
            assert_bytes(&a.head, buf_sv(&whole));
            struct recorded r = fixture_read(&f, 1);
            assert_string_equal(text_of(r.result, "upstream_error"), bodies[i]);
            recorded_deinit(&r);
            answer_deinit(&a);
            fixture_close(&f);
            buf_deinit(&s.seen);
        }
    }
}

static unsigned count(const struct buf *in, const char *word) {
    unsigned n = 0;
    for (const char *p = buf_cstr(in); (p = strcasestr(p, word)); p++) {
        n++;
    }
    return n;
}

static void each_side_has_one_framing_and_it_is_ours(void **state) {
    static const struct {
        const char *request, *version, *answer;
        bool close;
        const char *want; /* Of the agent's head. */
    } rows[] = {
        {LENGTH, "HTTP/1.1", BODY_LENGTH "\r\n" BODY, false, "Content-Length: 14\r\n"},
        {"content-length: 13\r\nContent-Length: 13\r\n", "HTTP/1.1",
         BODY_LENGTH BODY_LENGTH "\r\n" BODY, false, "Content-Length: 14\r\n"},
        {LENGTH, "HTTP/1.1",
         "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5;x=\"y\"\r\n{\"cho\r\n9\r\n"
         "ices\":[]}\r\n0\r\nX-Sum: 1\r\n\r\n",
         false, "Transfer-Encoding: chunked\r\n"},
        {LENGTH, "HTTP/1.1", "\r\n" BODY, true, "Transfer-Encoding: chunked\r\n"},
        {LENGTH, "HTTP/1.0", "\r\n" BODY, true, "Connection: close\r\n"},
        {LENGTH "Connection: close\r\n", "HTTP/1.1", BODY_LENGTH "\r\n" BODY, false,
         "Content-Length: 14\r\nConnection: close\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        AUTO_BUF struct buf whole = {0};
        struct fixture f;
        assert_int_equal(buf_addf(&whole, "HTTP/1.1 200 OK\r\n%s", rows[i].answer), 0);
        struct script s = {.answer = buf_cstr(&whole), .close = rows[i].close};
        fixture_open(&f, answer, &s, without_edits);
        struct answer a = ask(&f, rows[i].version, rows[i].request);
        assert_true(a.has_end);
        assert_bytes(&a.body, SV(BODY));
        if (!strstr(buf_cstr(&a.head), rows[i].want)) {
            fail_msg("row %zu: %s", i, buf_cstr(&a.head));
        }
        assert_true(count(&a.head, "content-length:") + count(&a.head, "transfer-encoding:") <= 1);
        assert_int_equal(count(&s.seen, "content-length:"), 1);
        assert_int_equal(count(&s.seen, "transfer-encoding:"), 0);
        answer_deinit(&a);
        fixture_close(&f);
        buf_deinit(&s.seen);
    }
}

static void an_answer_without_a_length_that_stops_in_its_json_is_no_clean_end(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        struct script s = {
            .answer =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"choices\":[{\"in",
            .close = true};
        fixture_open(&f, answer, &s, i ? without_edits : NULL);
        struct answer a = ask(&f, "HTTP/1.1", LENGTH);
        assert_true(i ? !a.has_end : a.status == 502);
        struct recorded r = fixture_read(&f, 1);
        assert_string_equal(text_of(r.result, "end"), "upstream_abort");
        recorded_deinit(&r);
        answer_deinit(&a);
        fixture_close(&f);
        buf_deinit(&s.seen);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_belongs_to_a_connection_stays_on_its_side),
    cmocka_unit_test(status_reason_and_repeated_fields_pass_as_they_are),
    cmocka_unit_test(error_bodies_flat_nested_html_and_empty_pass_word_for_word),
    cmocka_unit_test(each_side_has_one_framing_and_it_is_ours),
    cmocka_unit_test(an_answer_without_a_length_that_stops_in_its_json_is_no_clean_end),
};

RUN_TESTS(tests)
