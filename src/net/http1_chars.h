/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_HTTP1_CHARS_H
#define SNAFFLE_NET_HTTP1_CHARS_H

#include <stdbool.h>

#include "base/sv.h"

/* The character classes of RFC 9110, for the codec's own files. */
bool http1_is_token(struct sv v);  /* A name: not empty, token characters only. */
bool http1_is_text(struct sv v);   /* A value: no control bytes but TAB. */
bool http1_is_target(struct sv v); /* A target: not empty, visible ASCII only. */
bool http1_is_text_byte(unsigned char c);
int http1_hex_digit(unsigned char c); /* 0 to 15, or -1. */

/* Cuts the next element from a comma-separated list: false at its end. Empty elements are given. */
bool http1_list_next(struct sv *list, struct sv *element);

#endif
