/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_FILE_H
#define SNAFFLE_BASE_FILE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* Files and folders of the host. Never used on a path under a sandbox's home. */

/* Appends the whole regular file to `out`; more than `bytes_max` is ERR_LIMIT. */
int file_read(const char *path, size_t bytes_max, struct buf *out, struct err *err) CHECK_RESULT;

/* Writes beside and renames, so that readers see the old or the new file, never a part. */
/* Writes all of it to an open file; -1 with errno when it can't. */
int file_put(int fd, struct sv content) CHECK_RESULT;

int file_write(const char *path, struct sv content, unsigned mode, struct err *err) CHECK_RESULT;

/* Makes the folder and its missing parents; `mode` is for those made here. */
int file_mkdirs(const char *path, unsigned mode, struct err *err) CHECK_RESULT;

/* "a/b": the caller frees; NULL when there is no memory. An absolute `name` is given back alone. */
char *file_join(const char *dir, const char *name);

/* Removes a tree without following a link and without recursion; a missing one is success.
 * Entries are made writable by their owner on the way. */
int file_remove_tree(const char *path, struct err *err) CHECK_RESULT;

int file_exists(const char *path); /* 1 or 0. */

#endif
