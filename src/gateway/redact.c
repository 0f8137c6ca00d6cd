/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/redact.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx2"), always_inline)) static inline

/* Where in 32 places the key's first byte stands, and its last one where that should be. */
WIDE __m256i places_in(const char *p, const char *p_last, __m256i first, __m256i last) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)p_last);
    return _mm256_and_si256(_mm256_cmpeq_epi8(a, first), _mm256_cmpeq_epi8(b, last));
}

WIDE const char *find_in(const char *p, __m256i places, struct sv key) {
    for (unsigned bits = (unsigned)_mm256_movemask_epi8(places); bits; bits &= bits - 1) {
        const char *place = p + __builtin_ctz(bits);
        if (memcmp(place, key.p, key.n) == 0) {
            return place;
        }
    }
    return NULL;
}

/* Looks for the first and the last byte of it, 64 places at a time: answers are searched as a
 * whole, and memmem makes a table for each event. */
__attribute__((target("avx2"))) static const char *find_wide(struct sv text, struct sv key) {
    const __m256i first = _mm256_set1_epi8(key.p[0]);
    const __m256i last = _mm256_set1_epi8(key.p[key.n - 1]);
    const size_t to_last = key.n - 1;
    const char *p = text.p;
    const char *p_end = text.p + text.n - to_last - 64; /* The last 64 places. */
    for (bool is_over = false; !is_over; p = p_end - p > 64 ? p + 64 : p_end) {
        __m256i a = places_in(p, p + to_last, first, last);
        __m256i b = places_in(p + 32, p + 32 + to_last, first, last);
        __m256i any = _mm256_or_si256(a, b);
        if (!_mm256_testz_si256(any, any)) {
            const char *found = find_in(p, a, key);
            found = found ? found : find_in(p + 32, b, key);
            if (found) {
                return found;
            }
        }
        is_over = p == p_end; /* Those places stand in one window once more. */
    }
    return NULL;
}

static const char *find(struct sv text, struct sv key) {
    return text.n >= key.n + 63 && __builtin_cpu_supports("avx2")
               ? find_wide(text, key)
               : memmem(text.p, text.n, key.p, key.n);
}
#else
static const char *find(struct sv text, struct sv key) {
    return memmem(text.p, text.n, key.p, key.n);
}
#endif

void redact_text(struct sv key, char *text, size_t n) {
    if (key.n < REDACT_KEY_MIN) {
        return;
    }
    for (const char *found; n >= key.n && (found = find((struct sv){text, n}, key));) {
        char *at = text + (found - text);
        memset(at, '*', key.n);
        n -= (size_t)(at + key.n - text);
        text = at + key.n;
    }
}

/* How many bytes at the end are the beginning of the key. */
static size_t begun(struct sv key, struct sv text) {
    size_t n = text.n < key.n - 1 ? text.n : key.n - 1;
    const char *end = text.p + text.n;
    for (const char *p = end - n; (p = memchr(p, key.p[0], (size_t)(end - p))); p++) {
        if (memcmp(p, key.p, (size_t)(end - p)) == 0) {
            return (size_t)(end - p);
        }
    }
    return 0;
}

int redact_feed(struct redact *r, struct sv in, struct sv *out) {
    *out = in;
    if (r->key.n < REDACT_KEY_MIN) {
        return 0;
    }
    if (r->carry.len == 0 && begun(r->key, in) == 0 && !find(in, r->key)) {
        return 0;
    }
    buf_reset(&r->out);
    int rc = buf_add_sv(&r->out, buf_sv(&r->carry));
    rc = rc < 0 ? rc : buf_add_sv(&r->out, in);
    if (rc < 0) {
        return rc;
    }
    redact_text(r->key, r->out.data, r->out.len);
    size_t kept = begun(r->key, buf_sv(&r->out));
    *out = (struct sv){r->out.data, r->out.len - kept};
    buf_reset(&r->carry);
    return buf_add(&r->carry, r->out.data + out->n, kept);
}

struct sv redact_end(struct redact *r) {
    struct buf all = r->carry;
    r->carry = r->out;
    r->out = all;
    buf_reset(&r->carry);
    return buf_sv(&r->out);
}
