/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/breaker.h"

#include <openssl/sha.h>
#include <string.h>

struct breaker_key breaker_key_of(const struct breaker *b, struct sv body) {
    struct breaker_key key = {.is_set = b->failures_max > 0};
    if (key.is_set) {
        SHA256((const unsigned char *)body.p, body.n, key.digest);
    }
    return key;
}

static unsigned find(const struct breaker *b, const struct breaker_key *key) {
    unsigned i = 0;
    while (i < b->n && memcmp(b->bodies[i].key.digest, key->digest, BREAKER_DIGEST_BYTES) != 0) {
        i++;
    }
    return i;
}

bool breaker_is_open(const struct breaker *b, const struct breaker_key *key, int64_t now_ms) {
    unsigned i = key->is_set ? find(b, key) : b->n;
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

void breaker_note(struct breaker *b, const struct breaker_key *key, bool failed, int64_t now_ms) {
    if (!key->is_set) {
        return;
    }
    unsigned i = find(b, key);
    if (!failed) {
        if (i < b->n) {
            b->bodies[i] = b->bodies[--b->n];
        }
        return;
    }
    bool known = i < b->n && now_ms - b->bodies[i].since_ms <= b->within_ms;
    if (!known) {
        i = i < b->n ? i : make_room(b);
        b->bodies[i] = (struct breaker_body){.key = *key, .since_ms = now_ms};
    }
    b->bodies[i].failures++;
}
