/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <string.h>

#include "tests/unit/net/tls_testing.h"

#define STREAM "{\"model\":\"m\",\"stream\":true}"
#define CHUNK                                                                                      \
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"token_ids\":[1]}]}\n\n"

static bool read_request(SSL *ssl) {
    char bytes[8192];
    size_t have = 0;
    while (have < sizeof bytes - 1) {
        int n = SSL_read(ssl, bytes + have, (int)(sizeof bytes - 1 - have));
        if (n <= 0) {
            return false;
        }
        have += (size_t)n;
        bytes[have] = '\0';
        if (strstr(bytes, "\"include_usage\":true}}")) {
            return strstr(bytes, "Authorization: Bearer sk-real\r\n") != NULL;
        }
    }
    return false;
}

/* Whole answers for two requests, and half of one for the third. */
static void serve(SSL *ssl) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    static const char half[] = "49\r\n" CHUNK "\r\n";
    static const char rest[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    for (int i = 0; read_request(ssl); i++) {
        SSL_write(ssl, head, sizeof head - 1);
        SSL_write(ssl, half, sizeof half - 1);
        if (i == 2) {
            return; /* No closing alert either. */
        }
        SSL_write(ssl, rest, sizeof rest - 1);
    }
}

static char url[64];

static void over_tls(struct gateway_session_options *o) {
    o->upstream_url = url;
}

static void never(struct engine_request *r, void *arg) {
    (void)arg;
    r->close = true;
}

static void an_engine_over_tls_is_asked_on_one_connection(void **state) {
    struct tls_peer peer;
    struct fixture f;
    (void)state;
    tls_peer_start(&peer, serve);
    setenv("SSL_CERT_FILE", peer.ca_path, 1);
    snprintf(url, sizeof url, "https://localhost:%u/v1", peer.port);
    fixture_open(&f, never, NULL, over_tls);
    for (int i = 0; i < 2; i++) {
        struct answer a = fixture_call(&f, STREAM);
        assert_int_equal(a.status, 200);
        assert_true(a.has_end);
        assert_non_null(strstr(buf_cstr(&a.body), "[DONE]"));
        answer_deinit(&a);
    }
    struct answer a = fixture_call(&f, STREAM);
    assert_false(a.has_end);
    assert_non_null(strstr(buf_cstr(&a.body), "\"error\""));
    answer_deinit(&a);
    fixture_close(&f);
    tls_peer_stop(&peer);
    unsetenv("SSL_CERT_FILE");
}

static void an_engine_that_nobody_vouches_for_is_not_asked(void **state) {
    struct tls_peer peer;
    struct fixture f;
    (void)state;
    tls_peer_start(&peer, serve);
    snprintf(url, sizeof url, "https://localhost:%u/v1", peer.port);
    fixture_open(&f, never, NULL, over_tls);
    struct answer a = fixture_call(&f, STREAM);
    assert_int_equal(a.status, 502);
    assert_non_null(strstr(buf_cstr(&a.body), "certificate"));
    answer_deinit(&a);
    fixture_close(&f);
    tls_peer_stop(&peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_over_tls_is_asked_on_one_connection),
        cmocka_unit_test(an_engine_that_nobody_vouches_for_is_not_asked),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
