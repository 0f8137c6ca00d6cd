/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/text.h"

#include <stdint.h>
#include <string.h>

#define REPLACEMENT 0xfffdu

static unsigned hex4(const char *p) {
    unsigned v = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)p[i];
        v = v << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return v;
}

static size_t put_utf8(unsigned c, char out[4]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* `p` stands at the backslash. Returns behind the escape (both halves of a pair). */
static const char *escape(const char *p, const char *end, char out[4], size_t *n) {
    static const char spelled[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    if (p[1] != 'u') {
        const char *at = strchr(spelled, p[1]);
        out[0] = at ? meant[at - spelled] : p[1];
        *n = 1;
        return p + 2;
    }
    unsigned c = hex4(p + 2);
    p += 6;
    if (c >= 0xd800 && c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
        unsigned low = hex4(p + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            p += 6;
        }
    }
    *n = put_utf8(c >= 0xd800 && c < 0xe000 ? REPLACEMENT : c, out);
    return p;
}

bool text_is(struct sv key, struct sv name) {
    if (key.n == name.n && memcmp(key.p, name.p, name.n) == 0) {
        return true;
    }
    if (key.n <= name.n || !memchr(key.p, '\\', key.n)) {
        return false;
    }
    const char *p = key.p;
    const char *end = key.p + key.n;
    size_t at = 0;
    while (p < end) {
        char bytes[4] = {*p};
        size_t n = 1;
        p = *p == '\\' ? escape(p, end, bytes, &n) : p + 1;
        if (name.n - at < n || memcmp(name.p + at, bytes, n) != 0) {
            return false;
        }
        at += n;
    }
    return at == name.n;
}

struct sv text_inner(struct sv string) {
    if (string.n < 2 || string.p[0] != '"') {
        return (struct sv){string.p, 0};
    }
    return (struct sv){string.p + 1, string.n - 2};
}

int text_decode(struct sv inner, struct buf *out) {
    const char *p = inner.p;
    const char *end = inner.p + inner.n;
    while (p < end) {
        const char *backslash = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((backslash ? backslash : end) - p);
        int rc = buf_add(out, p, plain);
        p += plain;
        if (rc == 0 && p < end) {
            char bytes[4];
            size_t n = 0;
            p = escape(p, end, bytes, &n);
            rc = buf_add(out, bytes, n);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Behind a string that begins at `p`. */
static const char *behind_string(const char *p, const char *end) {
    for (p++; p < end && *p != '"'; p++) {
        p += *p == '\\';
    }
    return p < end ? p + 1 : end;
}

int text_copy_finite(struct sv value, struct buf *out) {
    const char *p = value.p;
    const char *end = value.p + value.n;
    const char *kept = p;
    while (p < end) {
        if (*p == '"') {
            p = behind_string(p, end);
            continue;
        }
        if (*p != 'N' && *p != 'I') {
            p++;
            continue;
        }
        const char *from = p > value.p && p[-1] == '-' ? p - 1 : p;
        int rc = buf_add(out, kept, (size_t)(from - kept));
        rc = rc < 0 ? rc : buf_add_sv(out, SV("null"));
        if (rc < 0) {
            return rc;
        }
        p += *p == 'N' ? 3 : 8;
        kept = p;
    }
    return buf_add(out, kept, (size_t)(end - kept));
}
