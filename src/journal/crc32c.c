/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* Castagnoli's, bits reversed. */

/* table[k][b]: what byte b adds when k more bytes follow it in the group of eight. */
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        }
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++) {
        for (int b = 0; b < 256; b++) {
            uint32_t before = table[k - 1][b];
            table[k][b] = before >> 8 ^ table[0][before & 0xff];
        }
    }
}

uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    pthread_once(&table_once, fill_table);
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t a = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                            (uint32_t)p[3] << 24);
        crc = table[7][a & 0xff] ^ table[6][a >> 8 & 0xff] ^ table[5][a >> 16 & 0xff] ^
              table[4][a >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n > 0; p++, n--) {
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xff];
    }
    return ~crc;
}

#if defined(__x86_64__)

/* The instruction takes a word each cycle, but gives its result three cycles later: three runs of
 * bytes go side by side. */
#define RUN_BYTES 1024u

/* far[k][b]: what byte k of a checksum, being b, becomes behind RUN_BYTES zero bytes. */
static uint32_t far[4][256];
static pthread_once_t far_once = PTHREAD_ONCE_INIT;

static void fill_far(void) {
    static const unsigned char zeros[RUN_BYTES];
    for (int k = 0; k < 4; k++) {
        for (uint32_t b = 0; b < 256; b++) {
            far[k][b] = ~crc32c_by_table(~(b << (8 * k)), zeros, RUN_BYTES);
        }
    }
}

static inline uint32_t move_far(uint32_t crc) {
    return far[0][crc & 0xff] ^ far[1][crc >> 8 & 0xff] ^ far[2][crc >> 16 & 0xff] ^
           far[3][crc >> 24];
}

static inline uint64_t word_at(const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t three_runs(uint32_t crc, const unsigned char *p) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < RUN_BYTES; i += 8) {
        a = __builtin_ia32_crc32di(a, word_at(p + i));
        b = __builtin_ia32_crc32di(b, word_at(p + i + RUN_BYTES));
        c = __builtin_ia32_crc32di(c, word_at(p + i + 2 * RUN_BYTES));
    }
    return move_far(move_far((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_sse42(uint32_t start, const void *bytes,
                                                                  size_t n) {
    const unsigned char *p = bytes;
    uint64_t crc = ~start;
    if (n >= 3 * RUN_BYTES) {
        pthread_once(&far_once, fill_far);
    }
    for (; n >= 3 * RUN_BYTES; p += 3 * RUN_BYTES, n -= 3 * RUN_BYTES) {
        crc = three_runs((uint32_t)crc, p);
    }
    for (; n >= 8; p += 8, n -= 8) {
        crc = __builtin_ia32_crc32di(crc, word_at(p));
    }
    for (; n > 0; p++, n--) {
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *p);
    }
    return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n) {
    return __builtin_cpu_supports("sse4.2") ? crc32c_by_sse42(crc, bytes, n)
                                            : crc32c_by_table(crc, bytes, n);
}

#else

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n) {
    return crc32c_by_table(crc, bytes, n);
}

#endif
