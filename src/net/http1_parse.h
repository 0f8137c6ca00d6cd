/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_HTTP1_PARSE_H
#define SNAFFLE_NET_HTTP1_PARSE_H

#include "net/http1.h"

/* Between the codec's own files: http1_head.c finds the head's end, http1_parse.c reads its lines,
 * http1_request.c and http1_response.c the first one. */

/* `raw` is a whole head, every line of which ends in CR LF. Returns 1. */
int http1_parse(struct http1_head_parser *p, struct sv raw, struct http1_head *head,
                struct err *err);

int http1_parse_request_line(struct http1_head_parser *p, struct sv line, struct http1_head *head,
                             struct err *err);
int http1_check_request(struct http1_head_parser *p, const struct http1_head *head,
                        struct err *err);
int http1_parse_status_line(struct http1_head_parser *p, struct sv line, struct http1_head *head,
                            struct err *err);

/* "HTTP/1.0" and "HTTP/1.1" set head->minor. */
int http1_parse_version(struct http1_head_parser *p, struct sv v, struct http1_head *head,
                        struct err *err);

/* Notes what to answer and returns `code`. */
int http1_refuse(struct http1_head_parser *p, int status, int code, const char *why,
                 struct err *err);

#endif
