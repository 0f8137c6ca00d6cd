/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_BUF_H
#define SNAFFLE_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sv.h"

/*
 * A growing byte buffer. All zero is an empty buffer without a limit. The bytes are always followed
 * by a NUL that does not count in `len`. Appending past `limit` (0: none) fails with ERR_LIMIT and
 * leaves the buffer as it was; want of memory gives ERR_NOMEM. Whoever holds it calls buf_deinit.
 *
 *     AUTO_BUF struct buf b = {.limit = 65536};
 *     return buf_addf(&b, "GET %s", path);
 */
struct buf {
    char *data; /* May be NULL while len is 0: read through buf_sv or buf_cstr. */
    size_t len;
    size_t cap;
    size_t limit;
};

int buf_add(struct buf *b, const void *bytes, size_t n) CHECK_RESULT;
int buf_add_sv(struct buf *b, struct sv v) CHECK_RESULT;
int buf_adds(struct buf *b, const char *cstr) CHECK_RESULT;
int buf_addc(struct buf *b, char c) CHECK_RESULT;
int buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3) CHECK_RESULT;

/* Makes room for `n` more bytes at data + len; the caller writes there and adds to len. */
static inline int buf_reserve(struct buf *b, size_t n) CHECK_RESULT;

/* Drops `n` bytes from the front (all, if fewer). */
void buf_consume(struct buf *b, size_t n);

void buf_reset(struct buf *b);  /* len = 0; keeps the memory and the limit. */
void buf_deinit(struct buf *b); /* Frees; leaves an empty buffer with the same limit. */

/* Gives the bytes as a C string that the caller frees; the buffer is empty after. NULL: no memory.
 */
char *buf_take(struct buf *b);

struct sv buf_sv(const struct buf *b);
const char *buf_cstr(const struct buf *b); /* "" when empty. Valid until the next change. */

#define AUTO_BUF __attribute__((cleanup(buf_deinit)))

/* For buf_reserve: there is mostly room already. */
int buf_grow(struct buf *b, size_t n) CHECK_RESULT;

static inline int buf_reserve(struct buf *b, size_t n) {
    return n < b->cap - b->len && b->limit == 0 ? 0 : buf_grow(b, n);
}

#endif
