/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/breaker.h"

#include <openssl/sha.h>
#include <string.h>

static unsigned find(const struct breaker *b, struct sv body, unsigned char *digest) {
    unsigned i = 0;
    SHA256((const unsigned char *)body.p, body.n, digest);
    while (i < b->n && memcmp(b->bodies[i].digest, digest, BREAKER_DIGEST_BYTES) != 0) {
        i++;
    }
    return i;
}

bool breaker_is_open(const struct breaker *b, struct sv body, int64_t now_ms) {
    unsigned char digest[BREAKER_DIGEST_BYTES];
    if (b->n == 0) {
        return false;
    }
    unsigned i = find(b, body, digest);
    return i < b->n && b->bodies[i].failures > b->failures_max &&
           now_ms - b->bodies[i].since_ms <= b->within_ms;
}

/* A place for one more body: a new one, or that of the body that began to fail first. */
static unsigned make_room(struct breaker *b) {
    unsigned oldest = 0;
    if (b->n < BREAKER_BODIES_MAX) {
        return b->n++;
    }
    for (unsigned i = 1; i < b->n; i++) {
        if (b->bodies[i].since_ms < b->bodies[oldest].since_ms) {
            oldest = i;
        }
    }
    return oldest;
}

void breaker_note(struct breaker *b, struct sv body, bool failed, int64_t now_ms) {
    unsigned char digest[BREAKER_DIGEST_BYTES];
    if (b->failures_max == 0 || (!failed && b->n == 0)) {
        return;
    }
    unsigned i = find(b, body, digest);
    if (!failed) {
        if (i < b->n) {
            b->bodies[i] = b->bodies[--b->n];
        }
        return;
    }
    bool known = i < b->n && now_ms - b->bodies[i].since_ms <= b->within_ms;
    if (!known) {
        i = i < b->n ? i : make_room(b);
        b->bodies[i] = (struct breaker_body){.since_ms = now_ms};
        memcpy(b->bodies[i].digest, digest, sizeof digest);
    }
    b->bodies[i].failures++;
}
