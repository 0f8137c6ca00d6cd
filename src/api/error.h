/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_API_ERROR_H
#define SNAFFLE_API_ERROR_H

#include "base/err.h"
#include "snaffle/snaffle.h"

/* Turns an error of the inside into one of the caller's, if it wants it; returns its code. */
int api_error(const struct err *err, snaffle_error **error);

#endif
