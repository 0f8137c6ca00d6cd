/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_TEXT_H
#define SNAFFLE_GATEWAY_TEXT_H

#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/scan.h"

/* What scanned JSON spans say. The functions take spans that the scanner has accepted. */

/* The key (as scanned, without quotes) spells `name`, however it is escaped. */
bool text_is(struct sv key, struct sv name);

/* The same for the key that `s` gave last; keys without escapes are compared at once. */
static inline bool text_key_is(const struct scan *s, struct sv key, struct sv name) {
    return s->key_is_plain ? key.n == name.n && memcmp(key.p, name.p, name.n) == 0
                           : text_is(key, name);
}

/* Without the quotes of a string's span; empty for other values. */
struct sv text_inner(struct sv string);

/* Appends the characters of a string (bytes without its quotes) as UTF-8. A surrogate without its
 * other half becomes U+FFFD. */
int text_decode(struct sv inner, struct buf *out) CHECK_RESULT;

/* Appends a JSON value's bytes with NaN and Infinity written as null, so that any reader can parse
 * it; all else as it is. */
int text_copy_finite(struct sv value, struct buf *out) CHECK_RESULT;

#endif
