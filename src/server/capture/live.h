/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_CAPTURE_LIVE_H
#define SNAFFLE_SERVER_CAPTURE_LIVE_H

#include "base/err.h"
#include "journal/trace.h"

/* A thread that appends each call's line to a trace file once the call is over. */
struct live;

int live_new(const struct trace_source *from, const char *path, struct live **out,
             struct err *err) CHECK_RESULT;
void live_wake(struct live *l); /* A call is over. Any thread. */
/* Writes the rest, and says whether all could be written. Frees it. Accepts NULL. */
int live_end(struct live *l, struct err *err) CHECK_RESULT;

#endif
