/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_RECORD_H
#define SNAFFLE_GATEWAY_RECORD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/capture.h"
#include "journal/journal.h"

/* From what was captured to the parts and the head of a result record. */

enum call_end { END_COMPLETE, END_CLIENT_ABORT, END_UPSTREAM_ABORT, END_ERROR };
const char *call_end_name(enum call_end end);

struct record_facts {
    int status; /* That the agent got; 0: none. */
    enum call_end end;
    double latency_s;
    double ttft_s;            /* Negative: no event came. */
    int upstream_status;      /* When it was no success; 0: none. */
    struct sv upstream_error; /* Raw text; empty: none. */
    const char *engine;       /* NULL: not known. */
    bool tail_open;
    unsigned wanted;     /* enum ask: what the engine was asked for. */
    bool encoded;        /* The engine encoded its answer, and it could not be decoded. */
    bool neutralised;    /* Truncation and penalties were switched off. */
    bool policy_changed; /* The session's policy is another than at the call's beginning. */
    struct sv
        policy_version;  /* Of the session; a JSON value. The engine's own word is preferred. */
    bool answer_too_big; /* A whole answer that was passed on unread. */
};

/* Its buffers are used again. */
struct record {
    struct buf head;
    struct buf response;
    struct journal_part parts[JOURNAL_PARTS_MAX]; /* Of it and of the capture. */
    unsigned n_parts;
};

/* Fills head and parts, which point into `k`, too. `answer`: a whole answer's text, already without
 * log-probabilities; empty for streams, whose answer is put together. */
int record_build(struct record *r, const struct capture *k, const struct record_facts *f,
                 struct sv answer) CHECK_RESULT;
void record_deinit(struct record *r);

#endif
