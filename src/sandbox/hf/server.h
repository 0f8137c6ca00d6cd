/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_HF_SERVER_H
#define SNAFFLE_SANDBOX_HF_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/sv.h"
#include "sandbox/hf/events.h"

/*
 * sbx-server, the program inside a Hub job, over the Jobs proxy: runs commands and moves files as
 * the container's user. Its three generations are spoken; what the first does wrong is not relied
 * upon: commands are only ever ones that end at once, and everything large goes by files. Any
 * thread.
 */
struct hf_server {
    char *base;          /* https://JOB--49983.hf.jobs, without a slash. */
    char *authorization; /* Whole headers; secrets. */
    char *token;
    struct http_pool *pool;
    _Atomic int protocol;     /* 1, 2 or 3; by health. */
    const struct cancel *end; /* Thrown: nothing is tried again. Borrowed; NULL: never. */
};

#define HF_SERVER_PORT 49983

/* A range, as the official client's: later generations give a body 60 s, and sixteen of these come
 * through 2.5 Mbit/s in that time. */
#define HF_SERVER_RANGE (1u << 20)

/* `token` is the Hub's, for the proxy; `nonce` the job's label, from which the server's own token
 * is derived: HMAC-SHA256 with the Hub's token as key over "hf-sandbox:NONCE". */
int hf_server_init(struct hf_server *s, const char *base, const char *token, const char *nonce,
                   struct err *err) CHECK_RESULT;
void hf_server_deinit(struct hf_server *s);

/* The derived token in lower-case hex, a secret that the caller frees; NULL: no memory. */
char *hf_server_token(const char *token, const char *nonce);

/*
 * Every call: ERR_CONNECT, ERR_CLOSED, ERR_TIMEOUT or ERR_UPSTREAM may pass by themselves (the
 * network, the proxy's own 5xx and 408); ERR_NOT_FOUND, ERR_INPUT (400, 409), ERR_DENIED (401, 403)
 * won't. Each has 60 s or the deadline.
 */
bool hf_server_may_pass(int code);

/* It answers; learns its generation. */
int hf_server_health(struct hf_server *s, deadline_ms until, const struct cancel *cancel,
                     struct err *err) CHECK_RESULT;

/* Of what does no harm twice. */
#define HF_SERVER_ATTEMPTS 4

/* A program, and what it reads on stdin: text. */
struct hf_server_run {
    const char *const *argv;
    struct sv input;
    double seconds;  /* At most; 0: 60. */
    bool may_repeat; /* Without harm: it may go over a kept connection, which libcurl trusts. */
};

/* Runs it to its end, once, and gives what was told of it: as stdout at most HF_SERVER_TOLD_MAX
 * bytes. ERR_CLOSED when its end was not told: then it may have run. */
#define HF_SERVER_TOLD_MAX (4u << 20)
int hf_server_run(struct hf_server *s, const struct hf_server_run *run, deadline_ms until,
                  const struct cancel *cancel, struct hf_events *out, struct err *err) CHECK_RESULT;

/* Runs a program that ends at once; gives its exit code (128 + signal), and its stderr's beginning.
 * ERR_CLOSED when its end was not told: then it may have run. */
int hf_server_exec(struct hf_server *s, const char *const *argv, unsigned attempts,
                   deadline_ms until, const struct cancel *cancel, int *exit_code, struct buf *said,
                   struct err *err) CHECK_RESULT;

/* As bytes are there: shorter at the end. */
struct hf_server_part {
    const char *path;
    uint64_t offset;
    size_t length;
    unsigned attempts;
};
int hf_server_read(struct hf_server *s, const struct hf_server_part *part, deadline_ms until,
                   const struct cancel *cancel, struct buf *out, struct err *err) CHECK_RESULT;

/* The whole file, made anew with its parents; in ranges, several at once, above 1 MB. */
int hf_server_write(struct hf_server *s, const char *path, struct sv content, unsigned mode,
                    deadline_ms until, const struct cancel *cancel, struct err *err) CHECK_RESULT;

/* Bytes of a file at an offset; at 0 the file is made anew. Tried again, which does no harm. */
struct hf_server_range {
    const char *path;
    size_t at;
    struct sv bytes;
    unsigned mode;
};
int hf_server_write_range(struct hf_server *s, const struct hf_server_range *range,
                          deadline_ms until, const struct cancel *cancel,
                          struct err *err) CHECK_RESULT;

/* Size in bytes of a regular file, else ERR_INPUT; ERR_NOT_FOUND. A link is not followed. */
int hf_server_size(struct hf_server *s, const char *path, deadline_ms until,
                   const struct cancel *cancel, uint64_t *out, struct err *err) CHECK_RESULT;

/* ERR_NOT_FOUND is success. */
int hf_server_delete(struct hf_server *s, const char *path, deadline_ms until,
                     struct err *err) CHECK_RESULT;

#endif
