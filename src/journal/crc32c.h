/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_CRC32C_H
#define SNAFFLE_JOURNAL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli, as in iSCSI). `crc` is 0 at the start, else what came out for the bytes
 * before. Uses the processor's instruction where there is one. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* The same by tables; for processors without the instruction, and for tests. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n);

#endif
