/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/redact.h"

#include <string.h>

void redact_text(struct sv key, char *text, size_t n) {
    if (key.n < REDACT_KEY_MIN) {
        return;
    }
    for (char *at; n >= key.n && (at = memmem(text, n, key.p, key.n));) {
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
    if (r->carry.len == 0 && begun(r->key, in) == 0 && sv_find(in, r->key) == (size_t)-1) {
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
