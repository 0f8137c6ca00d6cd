/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/digest.h"

#include <errno.h>
#include <openssl/evp.h> /* Its ERR_STATE and ours can't stand in one file. */
#include <openssl/hmac.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES 65536

static void put_hex(const unsigned char *digest, size_t n, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * n] = '\0';
}

int digest_hex(const void *bytes, size_t n, char out[DIGEST_HEX_MAX]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    size_t len = sizeof digest;
    if (EVP_Q_digest(NULL, "SHA256", NULL, bytes, n, digest, &len) != 1 ||
        2 * len + 1 != DIGEST_HEX_MAX) {
        return -1;
    }
    put_hex(digest, len, out);
    return 0;
}

/* 0 at the end, 1 when there may be more. */
static int feed(EVP_MD_CTX *md, int fd) {
    unsigned char piece[READ_BYTES];
    ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0) {
        return errno == EINTR ? 1 : -1;
    }
    return n == 0 ? 0 : EVP_DigestUpdate(md, piece, (size_t)n) == 1 ? 1 : -1;
}

int digest_fd_hex(int fd, char out[DIGEST_HEX_MAX]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    int r = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 ? 1 : -1;
    while (r > 0) {
        r = feed(md, fd);
    }
    if (r == 0 && (EVP_DigestFinal_ex(md, digest, &len) != 1 || 2 * len + 1 != DIGEST_HEX_MAX)) {
        r = -1;
    }
    EVP_MD_CTX_free(md);
    if (r == 0) {
        put_hex(digest, len, out);
    }
    return r;
}

int digest_hmac_hex(const char *key, const char *text, char out[DIGEST_HEX_MAX]) {
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    if (!HMAC(EVP_sha256(), key, (int)strlen(key), (const unsigned char *)text, strlen(text), mac,
              &n) ||
        2 * n + 1 != DIGEST_HEX_MAX) {
        return -1;
    }
    put_hex(mac, n, out);
    return 0;
}
