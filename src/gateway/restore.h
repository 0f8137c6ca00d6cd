/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_RESTORE_H
#define SNAFFLE_GATEWAY_RESTORE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/chunk.h"
#include "gateway/profile.h"
#include "gateway/splice.h"

/* Takes out of an answer what only our own keys brought in, so that it equals what the engine
 * would have sent without them. */

struct restore_plan {
    const struct profile *profile; /* How an answer looks where nothing was asked for. */
    unsigned ours;                 /* enum ask: what nobody but us asked for. */
};

bool restore_is_needed(const struct restore_plan *plan);

/* The chunk is the one that carries the usage of the whole stream, and only we asked for it; or it
 * says nothing but what was taken out of it (vLLM sends such when ids or log-probabilities are
 * asked for). */
bool restore_drops(const struct restore_plan *plan, const struct chunk *c);

/* Appends `text`, in which stands what `c` was parsed of, as it would have been. `work` is used
 * again. */
int restore_chunk(const struct restore_plan *plan, const struct chunk *c, struct sv text,
                  struct splice *work, struct buf *out) CHECK_RESULT;

#endif
