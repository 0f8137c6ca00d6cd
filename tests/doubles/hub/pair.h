/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_HUB_PAIR_H
#define SNAFFLE_TESTS_HUB_PAIR_H

#include <stdint.h>

#include "net/conn.h"

/*
 * Two connections tied together: bytes of either go to the other, an end to an end, a reset to a
 * reset, and a slow side holds the fast one back. It frees itself when both are done. Loop thread.
 */
struct pair;

/* Takes both connections, also when it fails (then both are reset). `b_limit`: after so many bytes
 * of b to a, both are reset; 0: no limit. */
void pair_join(struct conn *a, struct conn *b, uint64_t b_limit);

#endif
