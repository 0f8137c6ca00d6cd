/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_SPLICES_H
#define SNAFFLE_JOURNAL_SPLICES_H

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* Appends `text` with the splices made: a JSON array of [offset, length, replacement] in the order
 * of their offsets, in bytes of `text`, none of them overlapping. ERR_INPUT: they are no such, or
 * don't fit the text. */
int splices_apply(struct sv text, struct sv splices, struct buf *out) CHECK_RESULT;

#endif
