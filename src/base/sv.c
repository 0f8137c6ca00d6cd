/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/sv.h"

#include <string.h>
#include <strings.h>

struct sv sv_from(const char *cstr) {
    return cstr ? (struct sv){cstr, strlen(cstr)} : (struct sv){"", 0};
}

bool sv_eq(struct sv a, struct sv b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool sv_eq_nocase(struct sv a, struct sv b) {
    return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

bool sv_starts_with(struct sv v, struct sv prefix) {
    return v.n >= prefix.n && sv_eq((struct sv){v.p, prefix.n}, prefix);
}

bool sv_ends_with(struct sv v, struct sv suffix) {
    return v.n >= suffix.n && sv_eq((struct sv){v.p + (v.n - suffix.n), suffix.n}, suffix);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

struct sv sv_trim(struct sv v) {
    while (v.n > 0 && is_blank(v.p[0])) {
        v.p++;
        v.n--;
    }
    while (v.n > 0 && is_blank(v.p[v.n - 1])) {
        v.n--;
    }
    return v;
}

struct sv sv_cut(struct sv v, size_t start) {
    if (start >= v.n) {
        return (struct sv){v.p, 0};
    }
    return (struct sv){v.p + start, v.n - start};
}

bool sv_eq_constant_time(struct sv a, struct sv b) {
    if (a.n != b.n) {
        return false;
    }
    volatile unsigned char diff = 0;
    for (size_t i = 0; i < a.n; i++) {
        diff = (unsigned char)(diff | ((unsigned char)a.p[i] ^ (unsigned char)b.p[i]));
    }
    return diff == 0;
}

size_t sv_find(struct sv v, struct sv needle) {
    if (needle.n == 0) {
        return 0;
    }
    const char *hit = v.n ? memmem(v.p, v.n, needle.p, needle.n) : NULL;
    return hit ? (size_t)(hit - v.p) : (size_t)-1;
}

bool sv_parse_u64(struct sv v, unsigned long long max, unsigned long long *out) {
    if (v.n == 0) {
        return false;
    }
    unsigned long long value = 0;
    for (size_t i = 0; i < v.n; i++) {
        if (v.p[i] < '0' || v.p[i] > '9') {
            return false;
        }
        unsigned long long digit = (unsigned long long)(v.p[i] - '0');
        if (digit > max || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}
