/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_DECODE_H
#define SNAFFLE_GATEWAY_DECODE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "net/http1.h"

/*
 * Undoes content codings as the bytes come, wherever they are cut: gzip, deflate (with zlib's frame
 * or without it), br, zstd, and stacks of them. Nothing is held back but what a decoder itself
 * needs. Without I/O.
 */

/* More than one is rare, and each multiplies what a few bytes can grow to. */
#define DECODE_STACK_MAX 3u
/* A whole request's greatest size, plain (net/server.h takes as much): a body that grows beyond it
 * is a bomb, or could not be sent plain either. */
#define DECODE_REQUEST_MAX (64u * 1024 * 1024)
/* A stream of 128k tokens with top-20 rows is about 300 MB plain. */
#define DECODE_ANSWER_MAX (512u * 1024 * 1024)

struct decode;

/* What was decoded; a negative code ends the feeding, which returns it. */
typedef int (*decode_fn)(void *arg, struct sv plain, struct err *err);

/* For the head's Content-Encoding. 1: *out is the caller's; 0: the body is plain. ERR_UNSUPPORTED:
 * a coding that is not known, or too many. `max`: the most that may come out. */
int decode_new(const struct http1_head *head, uint64_t max, struct decode **out,
               struct err *err) CHECK_RESULT;

/* Gives all that can be known of the bytes so far, in pieces. ERR_INPUT: they are not in the
 * coding; ERR_LIMIT: too much comes out. Then the decoder can't go on. */
int decode_feed(struct decode *d, struct sv in, decode_fn fn, void *arg,
                struct err *err) CHECK_RESULT;

/* ERR_CLOSED: the bytes ended before the coding's own end. No bytes at all are an empty body. */
int decode_end(const struct decode *d, struct err *err) CHECK_RESULT;

void decode_free(struct decode *d); /* Accepts NULL. */

/* All at once: appends the plain body to `out`. */
int decode_whole(struct decode *d, struct sv in, struct buf *out, struct err *err) CHECK_RESULT;

#endif
