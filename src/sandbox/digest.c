/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/digest.h"

#include <openssl/evp.h> /* Its ERR_STATE and ours can't stand in one file. */

int digest_hex(const void *bytes, size_t n, char out[DIGEST_HEX_MAX]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    size_t len = sizeof digest;
    if (EVP_Q_digest(NULL, "SHA256", NULL, bytes, n, digest, &len) != 1 ||
        2 * len + 1 != DIGEST_HEX_MAX) {
        return -1;
    }
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * len] = '\0';
    return 0;
}
