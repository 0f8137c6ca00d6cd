/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/version.h"

#include <brotli/decode.h>
#include <curl/curl.h>
#include <jansson.h>
/* Both OpenSSL and base/err.h have an ERR_STATE. */
#define ERR_STATE openssl_error_state
#include <openssl/crypto.h>
#undef ERR_STATE
#include <seccomp.h>
#include <sqlite3.h>
#include <uv.h>
#include <zlib.h>
#include <zstd.h>

/* The libraries as they are loaded, not as they were compiled against: a report of a fault needs
 * these. */
void version_print(FILE *stream) {
    const struct scmp_version *seccomp = seccomp_version();
    unsigned brotli = BrotliDecoderVersion();
    (void)fprintf(stream,
                  "snaffle %s\n"
                  "libuv %s, jansson %s, openssl %s, libcurl %s, zlib %s, brotli %u.%u.%u, "
                  "zstd %s, sqlite %s, libseccomp %u.%u.%u\n",
                  SNAFFLE_VERSION, uv_version_string(), jansson_version_str(),
                  OpenSSL_version(OPENSSL_VERSION_STRING),
                  curl_version_info(CURLVERSION_NOW)->version, zlibVersion(), brotli >> 24,
                  brotli >> 12 & 0xfff, brotli & 0xfff, ZSTD_versionString(), sqlite3_libversion(),
                  seccomp->major, seccomp->minor, seccomp->micro);
}
