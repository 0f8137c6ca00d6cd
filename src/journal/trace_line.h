/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_TRACE_LINE_H
#define SNAFFLE_JOURNAL_TRACE_LINE_H

#include "journal/trace_load.h"

/* Appends a call's line, with its line feed. */
int trace_add_line(const struct trace_source *from, const struct trace_index *x,
                   const struct trace_entry *e, const struct trace_loaded *l, struct buf *out,
                   struct err *err) CHECK_RESULT;

/* Calls `sink` for each line of the session, with its line feed, in the order of the calls. */
int trace_lines(const struct trace_source *from, trace_line_fn sink, void *arg,
                struct trace_summary *summary, struct err *err) CHECK_RESULT;

#endif
