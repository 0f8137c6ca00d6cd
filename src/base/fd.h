/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_FD_H
#define SNAFFLE_BASE_FD_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"

/* Descriptors. Everything opened here is close-on-exec. */

int fd_set_nonblocking(int fd, struct err *err) CHECK_RESULT;

/* Writes all of it, or fails: ERR_TIMEOUT, ERR_CANCELLED, ERR_CLOSED (peer gone), ERR_SYS.
 * Works for blocking and non-blocking sockets and pipes; never raises SIGPIPE on a socket. */
int fd_write_all(int fd, const void *bytes, size_t n, deadline_ms until,
                 const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* Reads exactly `n` bytes; an end before that is ERR_CLOSED. */
int fd_read_exact(int fd, void *bytes, size_t n, deadline_ms until, const struct cancel *cancel,
                  struct err *err) CHECK_RESULT;

/* Reads what there is, at most `n` (> 0); 0 is the end of the stream. */
ssize_t fd_read_some(int fd, void *bytes, size_t n, deadline_ms until, const struct cancel *cancel,
                     struct err *err) CHECK_RESULT;

/* A unix stream socket that listens at `path` (an old socket there is removed), with `mode` on the
 * inode. A path longer than sun_path allows is reached through /proc/self/fd of its folder. */
int fd_listen_unix(const char *path, int backlog, unsigned mode, int *out_fd,
                   struct err *err) CHECK_RESULT;
int fd_connect_unix(const char *path, int *out_fd, struct err *err) CHECK_RESULT;

/* Lets this process open as many as it may be let (its hard limit); gives how many that is. */
unsigned long fd_raise_limit(void);

/* Closes every descriptor from `first` up. For a new process that is to hold nothing else. */
void fd_close_from(int first);

#endif
