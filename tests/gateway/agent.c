/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/http1.h"
#include "tests/testing.h"

struct agent agent_connect_tcp(uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return (struct agent){.fd = fd};
}

struct agent agent_connect_unix(const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && strlen(path) < sizeof at.sun_path);
    memcpy(at.sun_path, path, strlen(path));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return (struct agent){.fd = fd};
}

void agent_close(struct agent *a) {
    close(a->fd);
    buf_deinit(&a->in);
}

void agent_send(struct agent *a, struct sv bytes) {
    while (bytes.n > 0) {
        ssize_t n = send(a->fd, bytes.p, bytes.n, MSG_NOSIGNAL);
        assert_true(n > 0);
        bytes = sv_cut(bytes, (size_t)n);
    }
}

static void put_token(struct buf *b, const char *token) {
    if (token) {
        assert_int_equal(buf_addf(b, "Authorization: Bearer %s\r\n", token), 0);
    }
}

void agent_post(struct agent *a, const char *path, const char *token, struct sv body) {
    struct buf b = {0};
    assert_int_equal(buf_addf(&b,
                              "POST %s HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\n"
                              "x-session-id: ses_1\r\nAccept-Encoding: gzip\r\n",
                              path),
                     0);
    put_token(&b, token);
    assert_int_equal(buf_addf(&b, "Content-Length: %zu\r\n\r\n", body.n), 0);
    assert_int_equal(buf_add_sv(&b, body), 0);
    agent_send(a, buf_sv(&b));
    buf_deinit(&b);
}

void agent_get(struct agent *a, const char *path, const char *token) {
    struct buf b = {0};
    assert_int_equal(buf_addf(&b, "GET %s HTTP/1.1\r\nHost: gw\r\n", path), 0);
    put_token(&b, token);
    assert_int_equal(buf_adds(&b, "\r\n"), 0);
    agent_send(a, buf_sv(&b));
    buf_deinit(&b);
}

static bool fill(struct agent *a) {
    char bytes[65536];
    ssize_t n = read(a->fd, bytes, sizeof bytes);
    return n > 0 && buf_add(&a->in, bytes, (size_t)n) == 0;
}

static bool read_head(struct agent *a, struct answer *r, struct http1_body *body) {
    struct http1_head_parser p = {.kind = HTTP1_RESPONSE};
    bool found = false;
    while (!found && (a->in.len > 0 || fill(a))) {
        struct http1_head head;
        size_t used;
        struct err e = {0};
        int rc = http1_head_feed(&p, buf_sv(&a->in), &used, &head, &e);
        assert_ok(rc, &e);
        if (rc == 1 && head.status == 100) {
            http1_head_parser_reset(&p);
        } else if (rc == 1) {
            r->status = head.status;
            assert_int_equal(buf_add_sv(&r->head, head.raw), 0);
            http1_body_of_response(body, &head, false);
            found = true;
        }
        buf_consume(&a->in, used);
    }
    http1_head_parser_deinit(&p);
    return found;
}

static struct answer read_answer(struct agent *a, const char *until) {
    struct answer r = {0};
    struct http1_body body;
    struct err e = {0};
    if (!read_head(a, &r, &body)) {
        return r;
    }
    for (;;) {
        size_t used;
        struct sv span;
        int rc = http1_body_next(&body, buf_sv(&a->in), &used, &span, &e);
        assert_ok(rc, &e);
        if (rc == HTTP1_DATA) {
            assert_int_equal(buf_add_sv(&r.body, span), 0);
        }
        buf_consume(&a->in, used);
        r.has_end = rc == HTTP1_END;
        if (r.has_end || (until && strstr(buf_cstr(&r.body), until))) {
            return r;
        }
        if (rc == HTTP1_MORE && !fill(a)) {
            r.has_end = http1_body_eof(&body, false, &e) == 0;
            return r;
        }
    }
}

struct answer agent_read(struct agent *a) {
    return read_answer(a, NULL);
}

struct answer agent_read_until(struct agent *a, const char *text) {
    return read_answer(a, text);
}

void answer_deinit(struct answer *r) {
    buf_deinit(&r->head);
    buf_deinit(&r->body);
}
