/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mem_auto_free(void *address_of_pointer) {
    void *p;
    memcpy(&p, address_of_pointer, sizeof p);
    free(p);
}

void mem_auto_close(const int *fd) {
    if (*fd >= 0) {
        close(*fd);
    }
}

void *mem_take(void *address_of_pointer) {
    void *p;
    void *none = NULL;
    memcpy(&p, address_of_pointer, sizeof p);
    memcpy(address_of_pointer, &none, sizeof none);
    return p;
}

int mem_take_fd(int *fd) {
    int taken = *fd;
    *fd = -1;
    return taken;
}

char *mem_strdup(const char *s) {
    return s ? strdup(s) : NULL;
}

char *mem_strndup(const char *p, size_t n) {
    char *copy = malloc(n + 1);
    if (copy) {
        if (n > 0) {
            memcpy(copy, p, n);
        }
        copy[n] = '\0';
    }
    return copy;
}

char *mem_vprintf(const char *fmt, va_list args) {
    char *text = NULL;
    return vasprintf(&text, fmt, args) < 0 ? NULL : text;
}

char *mem_printf(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *text = mem_vprintf(fmt, args);
    va_end(args);
    return text;
}
