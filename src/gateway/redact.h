/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_REDACT_H
#define SNAFFLE_GATEWAY_REDACT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * Keeps the endpoint's key from coming back in its answers: engines, and proxies before them, quote
 * what they were sent in their errors. Each byte of it becomes a '*', so no length changes.
 */

/* Shorter ones stand for no key ("EMPTY", "none"), and honest text may hold them. */
#define REDACT_KEY_MIN 16u

/* Zero is initialised; set `key` (borrowed) before use. An empty or short key is not looked for. */
struct redact {
    struct sv key;
    struct buf carry; /* The beginning of what may be the key. */
    struct buf out;
};

/* Whole text, in place. */
void redact_text(struct sv key, char *text, size_t n);

/* Gives what can go on now, which may be less than came or none of it; valid until the next call.
 * Bytes without the key pass uncopied. */
int redact_feed(struct redact *r, struct sv in, struct sv *out) CHECK_RESULT;

/* Gives what was kept back: nothing more comes. */
struct sv redact_end(struct redact *r);

#endif
