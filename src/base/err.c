/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
    const char *name;
    const char *text;
    int http;
    int exit_status;
    int retry;
};

static const struct row rows[ERR_POS_COUNT_] = {[0] = {"OK", "no error", 200, 0, 0},
#define ERR_ROW_(name, text, http, exit_status, retry)                                             \
    [ERR_POS_##name] = {#name, text, http, exit_status, retry},
                                                ERR_MAP(ERR_ROW_)
#undef ERR_ROW_
};

static const struct row *find(int code) {
    if (code > 0 || code <= -(int)ERR_POS_COUNT_) {
        return &rows[code > 0 ? 0 : ERR_POS_INTERNAL];
    }
    return &rows[-code];
}

/* The message, and what it comes from. */
PRINTF_LIKE(3, 0)
static void say(struct err *err, const char *cause, const char *fmt, va_list args) {
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, args);
    size_t at = n < 0 ? 0 : (size_t)n;
    if (at < sizeof err->msg) {
        snprintf(err->msg + at, sizeof err->msg - at, ": %s", cause);
    }
}

int err_set(struct err *err, int code, const char *fmt, ...) {
    if (err) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->msg, sizeof err->msg, fmt, args);
        va_end(args);
        err->code = code;
        err->sys = 0;
    }
    return code;
}

int err_sys(struct err *err, int code, int errnum, const char *fmt, ...) {
    if (err) {
        va_list args;
        va_start(args, fmt);
        say(err, strerror(errnum), fmt, args);
        va_end(args);
        err->code = code;
        err->sys = errnum;
    }
    return code;
}

int err_wrap(struct err *err, const char *fmt, ...) {
    if (!err) {
        return ERR_INTERNAL;
    }
    char cause[ERR_MSG_MAX];
    memcpy(cause, err->msg, sizeof cause);
    va_list args;
    va_start(args, fmt);
    say(err, cause, fmt, args);
    va_end(args);
    return err->code;
}

const char *err_name(int code) {
    return find(code)->name;
}

int err_http_status(int code) {
    return find(code)->http;
}

int err_exit_status(int code) {
    return find(code)->exit_status;
}

int err_is_retryable(int code) {
    return find(code)->retry;
}

void err_bug(const char *file, int line, const char *what) {
    fprintf(stderr, "snaffle: bug: %s (%s:%d)\n", what, file, line);
    abort();
}
