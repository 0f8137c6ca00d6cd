/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_RECORD_H
#define SNAFFLE_GUEST_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* What `run` leaves of a command in its folder: the file `exit`, whole each time, a row of fields
 * (docs/internals/guest-protocol.md). */

#define RECORD_EXIT_UNSEEN 137 /* Of a command whose keeper was killed: as if it was itself. */

struct record_end {
    int exit_code;
    bool is_timed_out;
};

/* It runs (`end` NULL), or has ended. */
int record_write(const char *dir, uint64_t pid, const struct record_end *end,
                 struct err *err) CHECK_RESULT;
/* It never ran, and why; as well as that can be written. */
void record_write_failure(const char *dir, const struct err *failed);

/* Appends its fields, well formed; nothing when there is none yet. */
int record_read(const char *dir, struct buf *out, struct err *err) CHECK_RESULT;
bool record_is_final(struct sv fields);

/* DIR/NAME, which the caller frees; NULL: no memory. */
char *record_path(const char *dir, const char *name);

/* A small regular file, whole. ERR_LIMIT. */
int record_read_file(const char *path, size_t max, struct buf *out, struct err *err) CHECK_RESULT;

#endif
