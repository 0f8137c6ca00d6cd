/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_VERSION_H
#define SNAFFLE_CLI_VERSION_H

#include <stdio.h>

/* "snaffle 0.1.0" and the versions of the libraries. A file of its own, since OpenSSL's headers and
 * base/err.h both have an ERR_STATE. */
void version_print(FILE *stream);

#endif
