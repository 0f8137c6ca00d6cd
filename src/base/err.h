/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_ERR_H
#define SNAFFLE_BASE_ERR_H

/*
 * Errors. A function that can fail returns 0 or a positive value on success and a negative code
 * from ERR_MAP on failure, and fills the caller's `struct err`, which needs no release.
 *
 *     return err_set(err, ERR_INPUT, "task.json: '%s' is not a field (did you mean '%s'?)", a, b);
 *
 * Messages are one line, lower case, without a full stop, name the offending value in single
 * quotes and say what to do next where that is known. They never hold a secret.
 * Every function here accepts a NULL `struct err`.
 */

/* One row a code: name, text, HTTP status, exit status of the command line, may be tried again.
 * The codes are stable: append only. */
#define ERR_MAP(X)                                                                                 \
    X(NOMEM, "out of memory", 500, 1, 0)                                                           \
    X(SYS, "system call failed", 500, 1, 0)                                                        \
    X(INPUT, "bad input", 400, 2, 0)                                                               \
    X(USAGE, "bad usage", 400, 2, 0)                                                               \
    X(ENVIRONMENT, "the machine lacks something", 500, 3, 0)                                       \
    X(TIMEOUT, "out of time", 504, 1, 0)                                                           \
    X(CANCELLED, "cancelled", 499, 130, 0)                                                         \
    X(LIMIT, "a limit was passed", 413, 1, 0)                                                      \
    X(PROTOCOL, "the peer broke the protocol", 502, 1, 0)                                          \
    X(CLOSED, "the peer is gone", 502, 1, 1)                                                       \
    X(CONNECT, "no connection", 502, 1, 1)                                                         \
    X(NOT_FOUND, "not found", 404, 2, 0)                                                           \
    X(EXISTS, "exists already", 409, 2, 0)                                                         \
    X(UNSUPPORTED, "not supported here", 501, 2, 0)                                                \
    X(DENIED, "not allowed", 403, 1, 0)                                                            \
    X(LOST, "the sandbox is gone", 502, 1, 1)                                                      \
    X(CORRUPT, "damaged data", 500, 1, 0)                                                          \
    X(FULL, "no space left", 507, 1, 0)                                                            \
    X(STATE, "not possible in this state", 409, 1, 0)                                              \
    X(UPSTREAM, "the model endpoint failed", 502, 1, 1)                                            \
    X(QUOTA, "a quota is used up", 429, 1, 1)                                                      \
    X(INTERNAL, "fault in snaffle", 500, 1, 0)

enum err_code {
    ERR_OK_ = 0,
#define ERR_ENUM_(name, text, http, exit_status, retry) ERR_POS_##name,
    ERR_MAP(ERR_ENUM_)
#undef ERR_ENUM_
        ERR_POS_COUNT_
};

/* The negative values that functions return: ERR_INPUT and so on. */
enum {
#define ERR_NEG_(name, text, http, exit_status, retry) ERR_##name = -(int)ERR_POS_##name,
    ERR_MAP(ERR_NEG_)
#undef ERR_NEG_
};

#define ERR_MSG_MAX 1024 /* A path of 255 bytes, a shell command's tail and a remedy fit. */

struct err {
    int code; /* Negative, or 0 when nothing was set. */
    int sys;  /* errno of the failed call, or 0. */
    char msg[ERR_MSG_MAX];
};

#define CHECK_RESULT __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* Sets code and message; returns `code`. */
int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* The same with the text of `errnum` appended: "cannot open 'x': No such file or directory". */
int err_sys(struct err *err, int code, int errnum, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* Puts "context: " before the message that is there; keeps and returns the code. */
int err_wrap(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Name ("INPUT"), HTTP status, exit status and whether a second try can help, of a code as
 * returned. */
const char *err_name(int code);
int err_http_status(int code);
int err_exit_status(int code);
int err_is_retryable(int code);

/* Hands a failure on: for long rows of steps that hold nothing to be released. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_r_ = (call);                                                                       \
        if (try_r_ < 0) {                                                                          \
            return try_r_;                                                                         \
        }                                                                                          \
    } while (0)

/* For programmers' errors only, never for input: prints the place and aborts. */
#define BUG_IF(cond)                                                                               \
    do {                                                                                           \
        if (__builtin_expect(!!(cond), 0)) {                                                       \
            err_bug(__FILE__, __LINE__, #cond);                                                    \
        }                                                                                          \
    } while (0)
void err_bug(const char *file, int line, const char *what) __attribute__((noreturn, cold));

#endif
