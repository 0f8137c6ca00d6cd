/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_SSE_EVENT_H
#define SNAFFLE_NET_SSE_EVENT_H

#include "net/sse.h"

/* Both are for the splitter, and fill in what the lines say. `joined` is used when there are
 * several data lines. */
int sse_parse_event(struct sv lines, struct buf *joined, struct sse_event *out, struct err *err);
/* An event's only line, without its end. */
int sse_parse_line(struct sv line, struct buf *joined, struct sse_event *out, struct err *err);

/* The offset of the first LF or CR at or after `from`, or n. */
size_t sse_find_line_end(const char *p, size_t from, size_t n);

#endif
