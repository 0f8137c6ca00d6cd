/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_SPLICE_H
#define SNAFFLE_GATEWAY_SPLICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* Cuts and insertions in bytes that otherwise stay as they are. All zero is an empty list; it may
 * be used again after splice_reset. */
struct splice_edit {
    const char *at; /* In the text. */
    size_t cut;     /* Bytes taken away there. */
    struct sv put;  /* Bytes put in their place; kept. */
};

struct splice {
    struct splice_edit *edits;
    size_t n;
    size_t cap;
};

void splice_reset(struct splice *s);
void splice_deinit(struct splice *s);

/* Edits may come in any order but must not overlap; at one place they apply in the order given. */
int splice_add(struct splice *s, const char *at, size_t cut, struct sv put) CHECK_RESULT;
int splice_replace(struct splice *s, struct sv span, struct sv put) CHECK_RESULT;

/*
 * Takes a member (key's quote to value's end) out of its object within `text`, with one comma.
 * `kept_before`: some member before it stays.
 */
int splice_remove_member(struct splice *s, struct sv text, struct sv member,
                         bool kept_before) CHECK_RESULT;

/* Appends `text` with all edits made. */
int splice_apply(struct splice *s, struct sv text, struct buf *out) CHECK_RESULT;

#endif
