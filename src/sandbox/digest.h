/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_DIGEST_H
#define SNAFFLE_SANDBOX_DIGEST_H

#include <stddef.h>

#define DIGEST_HEX_MAX 65 /* SHA-256 in hex, and a NUL. */

/* Writes the SHA-256 of the bytes in lower-case hex. 0, or -1 when the library has none. */
int digest_hex(const void *bytes, size_t n, char out[DIGEST_HEX_MAX]);

/* The same of what the descriptor gives from where it stands to its end; -1 with errno too. */
int digest_fd_hex(int fd, char out[DIGEST_HEX_MAX]);

/* The HMAC-SHA256 of `text` under `key`, likewise. */
int digest_hmac_hex(const char *key, const char *text, char out[DIGEST_HEX_MAX]);

#endif
