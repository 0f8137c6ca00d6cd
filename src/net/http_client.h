/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_HTTP_CLIENT_H
#define SNAFFLE_NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * A blocking HTTP call over libcurl, for control traffic: one request, one bounded answer.
 * Certificates are verified, SSL_CERT_FILE is honoured, redirects are not followed, and only http
 * and https are spoken. Any thread.
 */
struct http_pool;

struct http_call {
    const char *method; /* NULL: GET, or POST when there is a body. */
    const char *url;
    const char *const *headers; /* "Name: value", NULL-ended; may be NULL. */
    struct sv body;
    const char *unix_socket; /* Connect there, whatever the URL's host says. */
    size_t answer_max;       /* 0: HTTP_ANSWER_MAX. A longer one is ERR_LIMIT. */
    deadline_ms deadline;    /* 0: 30 s from now. */
    const struct cancel *cancel;
    bool direct;            /* Ignore proxy variables. Loopback hosts always do. */
    struct http_pool *pool; /* Whose connections are used again; NULL: one of its own. */
    bool once; /* Must not be sent twice: goes over a fresh connection, since libcurl sends again by
                  itself what a kept one lost without an answer. */
};

/* Connections that are kept between calls, for as many calls at once as there are: a TLS handshake
 * costs two round trips, a call on a kept connection one. Any thread; freed after the last call. A
 * connection that idled for 5 s is not used again: servers end theirs after 10 s or more. */
int http_pool_new(struct http_pool **out, struct err *err) CHECK_RESULT;
void http_pool_free(struct http_pool *p); /* Accepts NULL. */

#define HTTP_ANSWER_MAX                                                                            \
    (16u * 1024 * 1024) /* Control answers are JSON of some KB; model lists a MB. */

struct http_answer {
    int status;
    struct buf body;
    struct buf head; /* Raw, of the final answer. */
};

void http_answer_deinit(struct http_answer *a);

/* Any status is success. ERR_CONNECT (refused, unknown name, TLS), ERR_TIMEOUT, ERR_CANCELLED,
 * ERR_LIMIT, ERR_CLOSED, ERR_PROTOCOL, ERR_INPUT (the URL). Messages name the host, never the
 * headers. */
int http_call(const struct http_call *call, struct http_answer *out, struct err *err) CHECK_RESULT;

/* The same with a JSON body (may be empty): sets Content-Type and Accept. */
int http_call_json(const struct http_call *call, struct http_answer *out,
                   struct err *err) CHECK_RESULT;

#endif
