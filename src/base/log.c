/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048 /* One write(2) of this size to a pipe is atomic (PIPE_BUF 4096). */

static atomic_int level_now = LOG_WARNING;
static atomic_int fd_now = STDERR_FILENO;

void log_set_level(enum log_level level) {
    atomic_store(&level_now, (int)level);
}

void log_set_fd(int fd) {
    atomic_store(&fd_now, fd);
}

void log_line(enum log_level level, const char *fmt, ...) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if ((int)level > atomic_load(&level_now)) {
        return;
    }
    char line[LINE_MAX_BYTES];
    int at = snprintf(line, sizeof line, "snaffle: %s: ", names[level]);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + at, sizeof line - (size_t)at - 1, fmt, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    size_t len = (size_t)at + (size_t)n;
    if (len > sizeof line - 2) {
        len = sizeof line - 2;
    }
    line[len++] = '\n';
    ssize_t written = write(atomic_load(&fd_now), line, len);
    (void)written; /* A log that can't be written has nowhere to say so. */
}
