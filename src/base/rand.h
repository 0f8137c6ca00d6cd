/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_RAND_H
#define SNAFFLE_BASE_RAND_H

#include <stddef.h>

/* From the kernel's generator; never fails (aborts where the kernel has none). */
void rand_bytes(void *out, size_t n);

/* Writes 2 * `bytes` lower-case hex digits and a NUL: `out` holds 2 * bytes + 1. */
void rand_hex(char *out, size_t bytes);

#endif
