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
struct http_call {
    const char *method; /* NULL: GET, or POST when there is a body. */
    const char *url;
    const char *const *headers; /* "Name: value", NULL-ended; may be NULL. */
    struct sv body;
    const char *unix_socket; /* Connect there, whatever the URL's host says. */
    size_t answer_max;       /* 0: HTTP_ANSWER_MAX. A longer one is ERR_LIMIT. */
    deadline_ms deadline;    /* 0: 30 s from now. */
    const struct cancel *cancel;
    bool direct; /* Ignore proxy variables. Loopback hosts always do. */
};

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
