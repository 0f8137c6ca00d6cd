/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_API_CANCEL_H
#define SNAFFLE_API_CANCEL_H

#include "base/cancel.h"
#include "snaffle/snaffle.h"

struct snaffle_cancel {
    struct cancel *soft;
    struct cancel *hard;
};

#endif
