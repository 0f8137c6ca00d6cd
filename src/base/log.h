/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_LOG_H
#define SNAFFLE_BASE_LOG_H

/*
 * One line a message, to stderr unless a descriptor is set: "snaffle: warning: text". Below the
 * level nothing is formatted. Safe from any thread. Never given a secret.
 */
enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level); /* LOG_WARNING at the start. */
void log_set_fd(int fd);                  /* Keeps `fd`. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
