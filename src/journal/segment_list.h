/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_SEGMENT_LIST_H
#define SNAFFLE_JOURNAL_SEGMENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The segments under a journal's folder, as a reader meets them. An entry keeps its index. */
struct segment_entry {
    char *boot_path;
    char *path;
    unsigned number;
    uint64_t offset; /* Read up to here; 0: not even the header. */
    bool final;      /* Nothing more will be written. */
    bool ended;      /* Read to its end. */
};

struct segment_list {
    char *dir;
    char *only_boot; /* NULL: all. */
    struct segment_entry *entries;
    size_t n;
    size_t cap;
};

/* Of a folder that is there; without entries. */
int segment_list_init(struct segment_list *l, const char *dir, struct err *err) CHECK_RESULT;

/* Adds one segment, unless it is listed. */
int segment_list_add(struct segment_list *l, const char *boot_path, unsigned number,
                     struct err *err) CHECK_RESULT;

/* Adds the segments that are new, by boot and number. */
int segment_list_refresh(struct segment_list *l, struct err *err) CHECK_RESULT;
void segment_list_deinit(struct segment_list *l);

/* Whether the writer is dead, or has gone on to the next segment. */
bool segment_is_final(const struct segment_entry *e);

#endif
