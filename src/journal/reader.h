/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_READER_H
#define SNAFFLE_JOURNAL_READER_H

#include "journal/journal.h"

/* Records of one boot by their places, for the writer itself. */
struct reader_places {
    const char *boot_path;
    unsigned segments;            /* There are this many, from 1. */
    struct journal_place *places; /* `segment` is the segment's number. */
    size_t n;
};

/* Gives a reader of these records alone, in this order. Takes `places`. */
int reader_open_places(const struct reader_places *from, struct journal_reader **out,
                       struct err *err) CHECK_RESULT;

/* A reader of one writer's records; `boot` NULL: of all. */
int reader_open_boot(const char *dir, const char *boot, struct journal_reader **out,
                     struct err *err) CHECK_RESULT;

/* Records of calls come without their heads and parts, which are not read. */
void reader_outline(struct journal_reader *r);

/* Of the record given last. */
const char *reader_boot_path(const struct journal_reader *r);
const char *reader_segment_path(const struct journal_reader *r);

#endif
