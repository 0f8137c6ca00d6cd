/* SPDX-License-Identifier: BSD-3-Clause */
/* Bodies of requests: great ones, ones that come in odd ways, many on one connection. */
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

#define BODY_MAX (64u * 1024 * 1024)
#define FRONT "{\"model\":\"m\",\"messages\":[\""
#define BACK "\"]}"
#define ANSWER "{\"choices\":[{\"index\":0,\"message\":{\"content\":\"a\"}}]}"

struct seen {
    size_t n;
    bool is_good; /* The bytes are those that were sent. */
};

static void fill(struct buf *b, size_t n) {
    assert_int_equal(buf_reserve(b, n), 0);
    memset(b->data, 'x', n);
    memcpy(b->data, FRONT, sizeof FRONT - 1);
    memcpy(b->data + n - (sizeof BACK - 1), BACK, sizeof BACK - 1);
    b->len = n;
}

static void answer_and_measure(struct engine_request *r, void *arg) {
    struct seen *s = arg;
    AUTO_BUF struct buf want = {0};
    s->n = r->body.n;
    fill(&want, r->body.n);
    s->is_good = sv_eq(r->body, buf_sv(&want));
    engine_json(r, 200, ANSWER);
}

static void without_edits(struct gateway_session_options *o) {
    o->edits = false;
}

/* As much as the peer takes: a refusal may come before all is sent. */
static void send_what_is_taken(struct agent *a, struct sv bytes) {
    while (bytes.n > 0) {
        ssize_t n = send(a->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        if (n <= 0) {
            return;
        }
        bytes = sv_cut(bytes, (size_t)n);
    }
}

static struct answer post(struct fixture *f, const struct buf *body, bool chunked) {
    AUTO_BUF struct buf head = {0};
    struct agent a = agent_connect_unix(f->unix_path);
    assert_int_equal(buf_adds(&head, "POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\n"), 0);
    assert_int_equal(chunked
                         ? buf_addf(&head, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", body->len)
                         : buf_addf(&head, "Content-Length: %zu\r\n\r\n", body->len),
                     0);
    agent_send(&a, buf_sv(&head));
    send_what_is_taken(&a, buf_sv(body));
    send_what_is_taken(&a, chunked ? SV("\r\n0\r\nX-Trailer: 1\r\n\r\n") : SV(""));
    struct answer r = agent_read(&a);
    agent_close(&a);
    return r;
}

static void a_body_of_64_mb_passes_and_one_byte_more_is_answered_413(void **state) {
    (void)state;
    for (int chunked = 0; chunked < 2; chunked++) {
        AUTO_BUF struct buf body = {0};
        struct fixture f;
        struct seen s = {0};
        fixture_open(&f, answer_and_measure, &s, without_edits);
        fill(&body, BODY_MAX);
        struct answer a = post(&f, &body, chunked);
        assert_int_equal(a.status, 200);
        assert_int_equal(s.n, BODY_MAX);
        assert_true(s.is_good);
        answer_deinit(&a);
        fill(&body, BODY_MAX + 1);
        a = post(&f, &body, chunked);
        assert_int_equal(a.status, 413);
        assert_non_null(strstr(buf_cstr(&a.body), "too long"));
        answer_deinit(&a);
        assert_int_equal(engine_requests(f.engine), 1);
        fixture_close(&f);
    }
}

static void who_expects_a_100_for_too_great_a_body_gets_the_413_in_its_place(void **state) {
    struct fixture f;
    struct seen s = {0};
    (void)state;
    fixture_open(&f, answer_and_measure, &s, NULL);
    struct agent a = agent_connect_unix(f.unix_path);
    agent_send(&a, SV("POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\n"
                      "Expect: 100-continue\r\nContent-Length: 67108865\r\n\r\n"));
    struct answer r = agent_read(&a);
    assert_int_equal(r.status, 413);
    answer_deinit(&r);
    agent_close(&a);
    fixture_close(&f);
}

static uint16_t test_listen(int *fd) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*fd >= 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(*fd, 8), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&at, &n), 0);
    return ntohs(at.sin_port);
}

/* An engine that answers a head before it has read the body. */
static void *refuse_early(void *arg) {
    int fd = *(int *)arg;
    char bytes[4096];
    int peer = accept(fd, NULL, NULL);
    if (peer >= 0 && read(peer, bytes, sizeof bytes) > 0) {
        static const char refusal[] = "HTTP/1.1 413 Too Much\r\nContent-Length: 5\r\n"
                                      "Connection: close\r\n\r\nsorry";
        ssize_t n = send(peer, refusal, sizeof refusal - 1, MSG_NOSIGNAL);
        (void)n;
        close(peer); /* With unread bytes: the peer gets a reset behind the answer. */
    }
    return NULL;
}

static void answer_never(struct engine_request *r, void *arg) {
    (void)arg;
    r->close = true;
}

static void an_engine_that_refuses_before_it_has_read_the_body_is_heard(void **state) {
    struct fixture f;
    struct gateway_session *s;
    struct err e = {0};
    AUTO_BUF struct buf body = {0};
    (void)state;
    fixture_open(&f, answer_never, NULL, NULL);
    int fd = -1;
    uint16_t port = test_listen(&fd);
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u/v1", (unsigned)port);
    const struct gateway_session_options o = {
        .name = "hasty.1", .upstream_url = url, .record = true};
    assert_ok(gateway_session_open(f.gateway, &o, &s, &e), &e);
    fill(&body, 16u << 20);
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, refuse_early, &fd), 0);
        struct agent a = agent_connect_tcp(f.port);
        agent_post(&a, "/v1/chat/completions", gateway_session_token(s), buf_sv(&body));
        struct answer r = agent_read(&a);
        assert_int_equal(r.status, 413);
        assert_bytes(&r.body, SV("sorry"));
        assert_true(r.has_end);
        answer_deinit(&r);
        agent_close(&a);
        pthread_join(thread, NULL);
    }
    close(fd);
    assert_ok(gateway_session_close(s, deadline_in_s(5), &e), &e);
    fixture_close(&f);
}

static void answer_by_number(struct engine_request *r, void *arg) {
    (void)arg;
    switch (r->number % 5) {
    case 0:
        engine_json(r, 200, ANSWER);
        break;
    case 1:
        engine_sse(r, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
                      "data: [DONE]\n\n");
        break;
    case 2:
        engine_json(r, 500, "{\"error\":\"a\"}");
        break;
    case 3:
        engine_puts(r, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" ANSWER);
        r->close = true;
        break;
    default:
        engine_puts(r, "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    }
}

static void one_connection_serves_calls_of_every_kind_in_a_row(void **state) {
    struct fixture f;
    (void)state;
    fixture_open(&f, answer_by_number, NULL, without_edits);
    struct agent a = agent_connect_tcp(f.port);
    for (unsigned i = 1; i <= 100; i++) {
        agent_post(&a, "/v1/chat/completions", gateway_session_token(f.session), SV("{}"));
        struct answer r = agent_read(&a);
        assert_int_equal(r.status, i % 5 == 2 ? 500 : i % 5 == 4 ? 204 : 200);
        assert_true(r.has_end);
        assert_int_equal(r.body.len > 0, i % 5 != 4);
        answer_deinit(&r);
    }
    agent_close(&a);
    fixture_close(&f);
}

/* Nothing is left out of a pipeline that is longer than what is held of it. */
static void a_long_pipeline_is_answered_whole_and_in_order(void **state) {
    enum { CALLS = 400 };
    struct fixture f;
    AUTO_BUF struct buf b = {0};
    (void)state;
    fixture_open(&f, answer_by_number, NULL, without_edits);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(buf_addf(&b,
                                  "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Fill: %0300d"
                                  "\r\nContent-Length: 2\r\n\r\n{}",
                                  i),
                         0);
    }
    struct agent a = agent_connect_unix(f.unix_path);
    agent_send(&a, buf_sv(&b));
    for (unsigned i = 1; i <= CALLS; i++) {
        struct answer r = agent_read(&a);
        assert_int_equal(r.status, i % 5 == 2 ? 500 : i % 5 == 4 ? 204 : 200);
        answer_deinit(&r);
    }
    agent_close(&a);
    fixture_close(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_body_of_64_mb_passes_and_one_byte_more_is_answered_413),
    cmocka_unit_test(who_expects_a_100_for_too_great_a_body_gets_the_413_in_its_place),
    cmocka_unit_test(an_engine_that_refuses_before_it_has_read_the_body_is_heard),
    cmocka_unit_test(one_connection_serves_calls_of_every_kind_in_a_row),
    cmocka_unit_test(a_long_pipeline_is_answered_whole_and_in_order),
};

RUN_TESTS(tests)
