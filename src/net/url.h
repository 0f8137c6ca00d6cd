/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_URL_H
#define SNAFFLE_NET_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* An http or https URL taken apart. All zero is empty; the holder calls url_deinit. */
struct url {
    bool tls;
    uint16_t port; /* 80 or 443 when the text names none. */
    bool is_ipv6;  /* `host` is an IPv6 literal. */
    char *host;    /* Lower case, without brackets. */
    char *path;    /* As spelled, with its slash; "" when the text has none. */
    char *query;   /* Without the question mark; "" when there is none. */
};

/* Refuses with ERR_INPUT: other schemes, user info (a secret in a URL ends up in logs), fragments,
 * blanks and control bytes, bad hosts and ports. The message never repeats user info. */
int url_parse(struct sv text, struct url *out, struct err *err) CHECK_RESULT;
void url_deinit(struct url *u);

/* Appends the request target of `route` under the URL's path, with one slash between, and the URL's
 * query after: "/v1/" and "/chat/completions" give "/v1/chat/completions". */
int url_join(const struct url *u, struct sv route, struct buf *out) CHECK_RESULT;

/* Appends the Host field's value: brackets for IPv6, the port when it is not the scheme's own. */
int url_put_host(const struct url *u, struct buf *out) CHECK_RESULT;

#endif
