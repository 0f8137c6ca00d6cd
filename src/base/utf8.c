/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/utf8.h"

size_t utf8_sequence(struct sv v) {
    if (v.n == 0) {
        return 0;
    }
    const unsigned char *s = (const unsigned char *)v.p;
    if (s[0] < 0x80) {
        return 1;
    }
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || v.n < n) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) {
        return 0;
    }
    return n;
}

int utf8_clean(struct sv v, struct buf *out) {
    while (v.n > 0) {
        size_t n = utf8_sequence(v);
        int r = n == 0 ? buf_adds(out, "\xEF\xBF\xBD") : buf_add(out, v.p, n);
        if (r < 0) {
            return r;
        }
        v = sv_cut(v, n == 0 ? 1 : n);
    }
    return 0;
}

struct sv utf8_tail(struct sv v, size_t bytes_max) {
    if (v.n <= bytes_max) {
        return v;
    }
    struct sv tail = sv_cut(v, v.n - bytes_max);
    for (size_t i = 0; i < 4 && tail.n > 0 && ((unsigned char)tail.p[0] & 0xc0) == 0x80; i++) {
        tail = sv_cut(tail, 1);
    }
    return tail;
}

struct sv utf8_first(struct sv v, size_t count) {
    struct sv rest = v;
    for (; count > 0 && rest.n > 0; count--) {
        size_t n = utf8_sequence(rest);
        rest = sv_cut(rest, n == 0 ? 1 : n);
    }
    return (struct sv){v.p, v.n - rest.n};
}

struct sv utf8_last(struct sv v, size_t count) {
    size_t start = v.n;
    for (; count > 0 && start > 0; count--) {
        size_t back = 1;
        while (back < 4 && back < start && ((unsigned char)v.p[start - back] & 0xc0) == 0x80) {
            back++;
        }
        start -= utf8_sequence(sv_cut((struct sv){v.p, start}, start - back)) == back ? back : 1;
    }
    return sv_cut(v, start);
}
