/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_TRACE_FOLLOW_H
#define SNAFFLE_JOURNAL_TRACE_FOLLOW_H

#include "journal/trace.h"

/*
 * A trace that grows beside the session: each call's line is appended to a file once its result is
 * whole, in the order in which calls end. One thread at a time.
 */
struct trace_follow;

/* `from` is copied, its strings are kept. The file is made if missing, else appended to; every line
 * is one write. */
int trace_follow_open(const struct trace_source *from, const char *path, struct trace_follow **out,
                      struct err *err) CHECK_RESULT;

/* Appends what has ended since. After an error of the file it may be called again: what it lacks
 * comes then. */
int trace_follow_step(struct trace_follow *f, struct err *err) CHECK_RESULT;

/* The session is over: of calls without a whole result what there is. */
int trace_follow_end(struct trace_follow *f, struct err *err) CHECK_RESULT;
void trace_follow_close(struct trace_follow *f); /* Accepts NULL. */

#endif
