/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_BREAKER_H
#define SNAFFLE_GATEWAY_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sv.h"

/*
 * Breaks loops of an agent that sends one and the same body again and again though each answer
 * fails. Equal bodies that are answered are samples, and pass. Without I/O; zero is one that never
 * breaks.
 */

#define BREAKER_DIGEST_BYTES 32
/* An agent and its sub-agents loop over a few bodies at a time. */
#define BREAKER_BODIES_MAX 16u

/* What tells one body from another once it is gone. Zero stands for none. */
struct breaker_key {
    bool is_set;
    unsigned char digest[BREAKER_DIGEST_BYTES];
};

struct breaker_body {
    struct breaker_key key;
    unsigned failures;
    int64_t since_ms; /* The first of them. */
};

struct breaker {
    unsigned failures_max; /* 0: never breaks. The same for life, as the next. */
    int64_t within_ms;
    struct breaker_body bodies[BREAKER_BODIES_MAX];
    unsigned n;
};

/* None of a breaker that never breaks: hashing a long body for nothing would cost each call. */
struct breaker_key breaker_key_of(const struct breaker *b, struct sv body);

/* The body failed as often as it may. */
bool breaker_is_open(const struct breaker *b, const struct breaker_key *key, int64_t now_ms);
void breaker_note(struct breaker *b, const struct breaker_key *key, bool failed, int64_t now_ms);

#endif
