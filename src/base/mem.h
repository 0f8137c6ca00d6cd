/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_MEM_H
#define SNAFFLE_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>

/*
 * Release at the end of a scope. `AUTO_FREE char *p = NULL;` is freed when it leaves the scope, and
 * `return TAKE(p);` moves it out. AUTO_CLOSE and TAKE_FD do the same for descriptors (-1: none).
 */
void mem_auto_free(void *address_of_pointer);
void mem_auto_close(const int *fd);
void *mem_take(void *address_of_pointer);
int mem_take_fd(int *fd);

/* `unused`: a thing that is only held, such as a lock, is used by its release. */
#define AUTO_FREE __attribute__((unused, cleanup(mem_auto_free)))
#define AUTO_CLOSE __attribute__((unused, cleanup(mem_auto_close)))
#define AUTO(destroy) __attribute__((unused, cleanup(destroy)))
#define TAKE(p) ((__typeof__(p))mem_take(&(p)))
#define TAKE_FD(fd) mem_take_fd(&(fd))

/* Copies; NULL when there is no memory (or `s` is NULL). The caller frees. */
char *mem_strdup(const char *s);
char *mem_strndup(const char *p, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *mem_vprintf(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
