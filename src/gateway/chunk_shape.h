/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_CHUNK_SHAPE_H
#define SNAFFLE_GATEWAY_CHUNK_SHAPE_H

#include <stdbool.h>

#include "gateway/chunk.h"
#include "gateway/scan.h"

/*
 * The token chunks of a stream differ in three values only: the text, the row of log-probabilities,
 * and the token's id. All between them is compared with the chunk before; only the three are read.
 *
 *     {"id":...,"choices":[{"index":0,"delta":{"content":|"
 * the"|},"logprobs":{"content":[|{...}|]}, "finish_reason":null,"token_ids":|[279]|}]}
 */

/* Fills `c` (which is reset) when the text begins with a chunk of the known shape, and gives how
 * many bytes it has. 0: go the long way. */
size_t chunk_shape_take(struct chunk *c, struct sv text);

/* Learns from what was read the long way, if it is of this kind. */
void chunk_shape_learn(struct chunk *c, struct sv text);

struct chunk_row chunk_row_of(const struct scan_row *r);

#endif
