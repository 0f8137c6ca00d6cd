/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_UTF8_H
#define SNAFFLE_BASE_UTF8_H

#include "base/buf.h"
#include "base/sv.h"

/* Length of the valid UTF-8 sequence at the front: 1 to 4; 0 when the first byte starts none
 * (stray continuation, overlong form, surrogate, above U+10FFFF, cut short) or `v` is empty. */
size_t utf8_sequence(struct sv v);

/* Appends `v` with each invalid byte as U+FFFD. */
int utf8_clean(struct sv v, struct buf *out) CHECK_RESULT;

/* The longest tail of at most `bytes_max` bytes that does not begin inside a sequence. */
struct sv utf8_tail(struct sv v, size_t bytes_max);

/* The last, or the first, `count` characters (each invalid byte counts as one). */
struct sv utf8_last(struct sv v, size_t count);
struct sv utf8_first(struct sv v, size_t count);

#endif
