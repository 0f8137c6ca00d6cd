/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TOOLS_ANALYZER_H
#define SNAFFLE_TOOLS_ANALYZER_H

/*
 * Included before every file that clang-tidy reads. The analyzer does not look into other files, so
 * it can't know that err_set gives back its code, and would follow paths on which a failure counts
 * as success.
 */
/* Both OpenSSL and base/err.h have an ERR_STATE. */
#define ERR_STATE openssl_error_state
#include <openssl/types.h>
#undef ERR_STATE

#include "../src/base/err.h" /* Not every file is compiled with src among its folders. */

#define err_set(err, code, ...) ((void)(err_set)((err), (code), __VA_ARGS__), (code))
#define err_sys(err, code, errnum, ...)                                                            \
    ((void)(err_sys)((err), (code), (errnum), __VA_ARGS__), (code))

#endif
