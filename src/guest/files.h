/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_FILES_H
#define SNAFFLE_GUEST_FILES_H

#include <stdint.h>

#include "base/err.h"
#include "base/sv.h"

/*
 * Files inside, whose folders belong to the agent: the last part of a path is never followed when
 * it is a link, and only regular files of a real file system are opened. Paths are relative to
 * `dir_fd` (AT_FDCWD: the guest's own folder). ERR_NOT_FOUND, ERR_DENIED, ERR_INPUT, ERR_FULL.
 */

/* A path as the peer gave it, as a C string that the caller frees. */
int files_path(struct sv path, char **out, struct err *err) CHECK_RESULT;

int files_open_read(int dir_fd, const char *path, int *out_fd, uint64_t *out_size,
                    struct err *err) CHECK_RESULT;

/* Made when missing; can be read too. */
int files_open_append(int dir_fd, const char *path, int *out_fd, struct err *err) CHECK_RESULT;
int files_open_dir(int dir_fd, const char *path, int *out_fd, struct err *err) CHECK_RESULT;
int files_exists(int dir_fd, const char *path, struct err *err) CHECK_RESULT; /* 1 or 0. */

/* A file written beside its name and put in its place by files_write_commit: whole or not at all.
 * files_write_deinit removes what was not committed. */
struct files_write {
    int dir_fd;
    int fd;
    unsigned mode;
    char *name;
    char *temp;
};
#define FILES_WRITE_NONE ((struct files_write){.dir_fd = -1, .fd = -1})

int files_write_begin(int dir_fd, const char *path, unsigned mode, struct files_write *out,
                      struct err *err) CHECK_RESULT;
/* The same with all of its content there already: the file that is open as `fd` becomes it, without
 * a copy. ERR_UNSUPPORTED, with nothing done, where it can't: it lies on another file system, say.
 */
int files_write_adopt(int dir_fd, const char *path, unsigned mode, int fd, struct files_write *out,
                      struct err *err) CHECK_RESULT;
int files_write_add(struct files_write *w, struct sv bytes, struct err *err) CHECK_RESULT;
int files_write_commit(struct files_write *w, struct err *err) CHECK_RESULT;
void files_write_deinit(struct files_write *w);

#endif
