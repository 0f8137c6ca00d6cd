/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_SEGMENT_H
#define SNAFFLE_JOURNAL_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/err.h"
#include "journal/boot.h"

/* The writing end of a boot's segments. Used by one thread. */
struct segment {
    const struct boot *boot; /* Keeps. */
    bool durable;
    uint64_t bytes_max; /* A segment that has as many is closed. */
    int fd;             /* -1: the next write begins a segment. */
    unsigned number;
    uint64_t bytes; /* Of whole records and the header. */
};

/* Begins the next segment. */
int segment_begin(struct segment *s, struct err *err) CHECK_RESULT;

/* Whether a record of `n` bytes goes into this segment. */
bool segment_fits(const struct segment *s, uint64_t n);

/* Records to be written at once: the runs of memory that hold them one after the other, which are
 * used up, and where each ends. */
struct segment_batch {
    struct iovec *spans;
    unsigned n_spans;
    const uint64_t *ends; /* From the batch's beginning. */
    unsigned n;
};

/* Writes them, and syncs them if durable. *whole: how many count; on failure (ERR_FULL, ERR_SYS)
 * the rest is cut away, or the segment given up. */
int segment_write(struct segment *s, const struct segment_batch *batch, unsigned *whole,
                  struct err *err) CHECK_RESULT;

void segment_end(struct segment *s); /* Closes. */

/* Removes one that nobody needs. */
void segment_remove(const struct boot *boot, unsigned number);

#endif
