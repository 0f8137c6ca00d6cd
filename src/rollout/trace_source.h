/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_TRACE_SOURCE_H
#define SNAFFLE_ROLLOUT_TRACE_SOURCE_H

#include "journal/trace.h"
#include "rollout/session_impl.h"
#include "train/judge.h"

/* Where a session's trace comes from, and who judges it. */
struct session_trace {
    struct trace_source source;
    struct judge judge;
};

/* Waits until all that was recorded stands in the journal. `out` must not be moved. */
int session_trace(struct rollout_session *s, struct session_trace *out,
                  struct err *err) CHECK_RESULT;

#endif
