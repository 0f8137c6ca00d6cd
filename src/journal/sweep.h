/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_SWEEP_H
#define SNAFFLE_JOURNAL_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What dead writers left: segments whose sessions all have their trace on the disk, and folders
 * without a record. What is the only record of some call stays. */
struct journal_swept {
    unsigned segments; /* Removed. */
    uint64_t bytes;
    unsigned kept; /* Of dead writers, too, but needed. */
};

/* Adds to *out. `dry`: only counts. A folder that is not there is success. */
int journal_sweep(const char *dir, bool dry, struct journal_swept *out,
                  struct err *err) CHECK_RESULT;

#endif
