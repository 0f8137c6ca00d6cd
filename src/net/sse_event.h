/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_SSE_EVENT_H
#define SNAFFLE_NET_SSE_EVENT_H

#include "net/sse.h"

/* Reads the fields of one event's bytes, past `front` bytes that are no line; `joined` is
 * used when it has several data lines. For the splitter's own use. */
int sse_parse_event(struct sv raw, size_t front, struct buf *joined, struct sse_event *out,
                    struct err *err);

/* The offset of the first LF or CR at or after `from`, or n. */
size_t sse_find_line_end(const char *p, size_t from, size_t n);

#endif
