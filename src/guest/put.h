/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_PUT_H
#define SNAFFLE_GUEST_PUT_H

#include <stdint.h>

#include "base/err.h"

/* Puts what an upload left at `from` in the place of `to`, whole or not at all, as the user (0: the
 * caller) and with what that user may; `from` is gone after. Links are not followed. */
struct put_options {
    const char *from;
    const char *to; /* Absolute. */
    unsigned mode;
    uint32_t user;
};
int put(const struct put_options *o, struct err *err) CHECK_RESULT;

#endif
