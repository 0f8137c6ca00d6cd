/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_TRACE_ZST_H
#define SNAFFLE_JOURNAL_TRACE_ZST_H

#include "base/buf.h"
#include "base/err.h"

/* Large traces, compressed by zstd with a long window: each call repeats the conversation. */

/* Compresses a file into another, whole or not at all. */
int trace_zst_pack(const char *from, const char *to, struct err *err) CHECK_RESULT;

/* Whether a file that begins with these bytes is compressed. */
bool trace_zst_is(struct sv start);

/* Decompresses what is fed to it, piece by piece. */
struct trace_unzst;
int trace_unzst_new(struct trace_unzst **out, struct err *err) CHECK_RESULT;
/* Uses up all of `in`, giving what comes out to `take`. */
int trace_unzst_feed(struct trace_unzst *u, struct sv in,
                     int (*take)(void *arg, struct sv bytes, struct err *err), void *arg,
                     struct err *err) CHECK_RESULT;
/* Whether the input so far ended where a frame does. */
bool trace_unzst_whole(const struct trace_unzst *u);
void trace_unzst_free(struct trace_unzst *u); /* Accepts NULL. */

#endif
