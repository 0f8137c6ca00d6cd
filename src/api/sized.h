/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_API_SIZED_H
#define SNAFFLE_API_SIZED_H

#include <stddef.h>

#include "base/err.h"

/*
 * Copies an options struct of the caller's, which begins with its size, into ours. A smaller one
 * (an older header) has zero for what it lacks; a larger one (a newer header) is taken if what we
 * don't know is zero, else ERR_UNSUPPORTED. `least` is the size of the struct's first version:
 * a smaller one, or NULL, is ERR_INPUT.
 */
int sized_take(void *out, size_t out_size, const void *from, size_t least,
               struct err *err) CHECK_RESULT;

#endif
