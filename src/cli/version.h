/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_VERSION_H
#define SNAFFLE_CLI_VERSION_H

#include <stdio.h>

/* "snaffle 0.1.0" and the versions of the libraries. */
void version_print(FILE *stream);

#endif
