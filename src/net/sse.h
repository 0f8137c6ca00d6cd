/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_SSE_H
#define SNAFFLE_NET_SSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * Splits a server-sent event stream at its blank lines, without I/O. Lines end in LF, CR LF or a
 * lone CR and nothing else. Every byte of the stream belongs to exactly one event's `raw`, comments
 * and stray blank lines too, so the raw spans in order are the stream. Where the bytes were cut
 * on their way changes nothing. An event that lies whole in `in` is given in place.
 *
 *     while ((rc = sse_feed(&s, in, &used, &event, err)) > 0) {
 *         forward(event.raw);
 *         in = sv_cut(in, used);
 *     }
 */

/* Routed-expert matrices and images of many MB come in one event; the greatest body is 64 MB. */
#define SSE_EVENT_MAX (64u * 1024 * 1024)

struct sse_event {
    struct sv raw;      /* Through its blank line. */
    struct sv lines;    /* The same without a byte order mark before its first line. */
    struct sv data;     /* The data lines joined by LF; in place when there is only one. */
    struct sv type;     /* Of `event:`, empty when absent. */
    struct sv id;       /* Of `id:`. */
    long long retry_ms; /* Of `retry:`, -1 when absent. */
    bool has_data;      /* false: only comments, other fields or nothing at all. */
    bool has_id;
    bool whole; /* false: the stream ended before the blank line (sse_finish only). */
};

/* All zero is a splitter before its first byte. The holder calls sse_deinit. */
struct sse {
    size_t event_max;  /* 0: SSE_EVENT_MAX. */
    struct buf carry;  /* The start of an event that came in pieces. */
    struct buf joined; /* Data lines of an event with several. */
    size_t line_at;    /* Where the current line starts in the unfinished event. */
    size_t scanned;    /* How far that line was searched for its end. */
    size_t n_lines;    /* Ended so far in the unfinished event. */
    size_t first_line_end;
    size_t front_n; /* Bytes at its front that are no line: a byte order mark, or a late LF. */
    int last_end;   /* How the line before ended. */
    bool front_known;
    bool past_start; /* A byte order mark can no longer come. */
    bool cr_before;  /* The event before ended in CR: an LF right after belongs to that line end. */
    bool given;      /* The carry was given out and is dropped at the next call. */
};

/* 1: `event` is filled and `*used` bytes of `in` were taken; call again with the rest. The views
 * live until the next call (and no longer than `in`). 0: all was taken, the tail is held.
 * ERR_LIMIT: the event is too big; the splitter can't go on. */
int sse_feed(struct sse *s, struct sv in, size_t *used, struct sse_event *event,
             struct err *err) CHECK_RESULT;

/* The stream ended. 1: `event` holds what stood without a blank line, 0: nothing was left. */
int sse_finish(struct sse *s, struct sse_event *event, struct err *err) CHECK_RESULT;

/* For who knows an event's end without a search: whether the next byte begins one at a plain place,
 * and the note that `raw`, an event that ends in a blank line, was taken and not fed. */
bool sse_is_between(struct sse *s);
void sse_pass(struct sse *s, struct sv raw);

size_t sse_held(const struct sse *s); /* Bytes taken that no event has given yet. */
void sse_reset(struct sse *s);        /* For the next stream; keeps the memory. */
void sse_deinit(struct sse *s);

#endif
