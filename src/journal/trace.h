/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_TRACE_H
#define SNAFFLE_JOURNAL_TRACE_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "journal/journal.h"

/*
 * trace.jsonl, from the journal's evidence: one line a call, in the order of the calls' numbers.
 * The engine's values are copied byte by byte (a line feed between values becomes a blank), so
 * numbers keep their spelling. Every line is valid JSON: a damaged part becomes null with the
 * finding "part_invalid". Fields: docs/schema/trace.schema.json.
 */

#define TRACE_SCHEMA "snaffle.trace/1"
#define TRACE_PLAIN_MAX (16u << 20) /* Above it the file is compressed: trace.jsonl.zst. */
#define TRACE_LINE_MAX (512u << 20) /* A request of 64 MB, its answer and log-probabilities. */

/* One call as the journal has it. Views, valid during the callback. A missing value is empty. */
struct trace_call {
    struct sv session;
    uint64_t call;
    const json_t *intent; /* Heads; never NULL (an empty object where damaged or missing). */
    const json_t *result;
    struct sv request; /* As forwarded. Raw JSON; these are checked, each is one valid value. */
    struct sv agent_request;
    struct sv response;
    struct sv logprobs;
    struct sv completion_tokens;
    struct sv completion_token_ids;
    struct sv per_token_logps;
    struct sv prompt_token_ids;
    struct sv usage;
};

/* What is judged elsewhere. Starts as role "agent", trainable null, no findings. */
struct trace_judgement {
    const char *role; /* agent, auxiliary, discarded; static. */
    int trainable;    /* -1: null. */
    json_t *findings; /* An array of codes to append to; owned by the caller. */
};

typedef int (*trace_judge_fn)(void *arg, const struct trace_call *call,
                              struct trace_judgement *judgement, struct err *err);

struct trace_source {
    const char *journal_dir; /* runs/<run>/journal */
    const char *session;     /* "<rollout>.<attempt>" */
    trace_judge_fn judge;    /* NULL: nothing is judged. */
    void *arg;
    struct journal *journal; /* The session's own writer, if it is this process; else NULL. */
    double since;            /* When it was opened, in case there was one of its name before. */
};

#define TRACE_TORN_MAX 512 /* The names of some places. */

struct trace_summary {
    unsigned calls;
    unsigned open; /* With an intent but no result. */
    unsigned torn; /* Damaged places met on the way. */
    char torn_at[TRACE_TORN_MAX];
    uint64_t plain_bytes;
};

/* Appends the lines to `out`. */
int trace_to_buf(const struct trace_source *from, struct buf *out, struct trace_summary *summary,
                 struct err *err) CHECK_RESULT;

/* Writes DIR/trace.jsonl, or DIR/trace.jsonl.zst when it is large (then without the other); whole
 * or not at all. The disk has it once this returns. `summary` may be NULL. */
int trace_to_dir(const struct trace_source *from, const char *dir, struct trace_summary *summary,
                 struct err *err) CHECK_RESULT;

/* Calls `line` for each line, without its line feed; a negative code from it ends the reading.
 * `path`: a trace file of either kind, or the folder it stands in; plain and compressed are told
 * apart by content, and the one stands in for the other if missing. */
typedef int (*trace_line_fn)(void *arg, struct sv line, struct err *err);
int trace_read(const char *path, trace_line_fn line, void *arg, struct err *err) CHECK_RESULT;

#endif
