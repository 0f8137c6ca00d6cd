/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/redact.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* Looks for the first and the last byte of it, 32 places at a time: answers are searched as a
 * whole, and memmem makes a table for each event. */
__attribute__((target("avx2"))) static const char *find_wide(struct sv text, struct sv key) {
    const __m256i first = _mm256_set1_epi8(key.p[0]);
    const __m256i last = _mm256_set1_epi8(key.p[key.n - 1]);
    size_t at = 0;
    size_t at_last = text.n - key.n - 31; /* The last places stand in one window once more. */
    for (bool is_over = false; !is_over; at = at + 32 < at_last ? at + 32 : at_last) {
        const char *p = text.p + at;
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + key.n - 1));
        __m256i both = _mm256_and_si256(_mm256_cmpeq_epi8(a, first), _mm256_cmpeq_epi8(b, last));
        for (unsigned places = (unsigned)_mm256_movemask_epi8(both); places; places &= places - 1) {
            const char *place = p + __builtin_ctz(places);
            if (memcmp(place, key.p, key.n) == 0) {
                return place;
            }
        }
        is_over = at == at_last;
    }
    return NULL;
}

static const char *find(struct sv text, struct sv key) {
    return text.n >= key.n + 31 && __builtin_cpu_supports("avx2")
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
