/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rand.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/err.h"

void rand_bytes(void *out, size_t n) {
    char *p = out;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        BUG_IF(got < 0 && errno != EINTR);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
}

void rand_hex(char *out, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c;
        rand_bytes(&c, 1);
        out[2 * i] = "0123456789abcdef"[c >> 4];
        out[2 * i + 1] = "0123456789abcdef"[c & 15];
    }
    out[2 * bytes] = '\0';
}
