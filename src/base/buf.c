/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_CAP 256 /* One line of a log or a request head's first lines. */

int buf_grow(struct buf *b, size_t n) {
    if (n > SIZE_MAX / 2 || b->len > SIZE_MAX / 2 - n) {
        return ERR_LIMIT;
    }
    size_t need = b->len + n;
    if (b->limit && need > b->limit) {
        return ERR_LIMIT;
    }
    if (need < b->cap) {
        return 0;
    }
    size_t cap = b->cap ? b->cap : BUF_FIRST_CAP;
    while (cap <= need) {
        cap *= 2;
    }
    char *data = realloc(b->data, cap);
    if (!data) {
        return ERR_NOMEM;
    }
    b->data = data;
    b->cap = cap;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add(struct buf *b, const void *bytes, size_t n) {
    int r = buf_reserve(b, n);
    if (r < 0) {
        return r;
    }
    if (n > 0) {
        memcpy(b->data + b->len, bytes, n);
    }
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}

int buf_add_sv(struct buf *b, struct sv v) {
    return buf_add(b, v.p, v.n);
}

int buf_adds(struct buf *b, const char *cstr) {
    return buf_add(b, cstr, strlen(cstr));
}

int buf_addc(struct buf *b, char c) {
    return buf_add(b, &c, 1);
}

int buf_addf(struct buf *b, const char *fmt, ...) {
    va_list args;
    va_list again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    int r = n < 0 ? ERR_INTERNAL : buf_reserve(b, (size_t)n);
    if (r == 0) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return r;
}

void buf_consume(struct buf *b, size_t n) {
    if (n >= b->len) {
        buf_reset(b);
        return;
    }
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

void buf_reset(struct buf *b) {
    b->len = 0;
    if (b->data) {
        b->data[0] = '\0';
    }
}

void buf_deinit(struct buf *b) {
    free(b->data);
    *b = (struct buf){.limit = b->limit};
}

char *buf_take(struct buf *b) {
    if (!b->data && buf_reserve(b, 0) < 0) {
        return NULL;
    }
    char *data = b->data;
    *b = (struct buf){.limit = b->limit};
    return data;
}

struct sv buf_sv(const struct buf *b) {
    return (struct sv){b->data ? b->data : "", b->len};
}

const char *buf_cstr(const struct buf *b) {
    return b->data ? b->data : "";
}
