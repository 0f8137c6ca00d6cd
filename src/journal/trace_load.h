/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_TRACE_LOAD_H
#define SNAFFLE_JOURNAL_TRACE_LOAD_H

#include "journal/trace.h"
#include "journal/trace_index.h"

/* The raw values of a call, in the order of `trace_load_names`. */
enum trace_value {
    TRACE_AGENT_BODY,
    TRACE_SENT_BODY,
    TRACE_RESPONSE,
    TRACE_LOGPROBS,
    TRACE_COMPLETION_TOKENS,
    TRACE_COMPLETION_TOKEN_IDS,
    TRACE_PER_TOKEN_LOGPS,
    TRACE_PROMPT_TOKEN_IDS,
    TRACE_USAGE,
    TRACE_SPLICES,
    TRACE_VALUES
};

/* One call with its records' bytes copied. Zero is empty; one is used for call after call. */
struct trace_loaded {
    struct buf values[TRACE_VALUES]; /* Each one valid JSON value, or empty. */
    struct buf intent;               /* Heads; valid objects, or empty. */
    struct buf result;
    struct buf tail;
    double time;
    json_t *findings; /* What loading met: part_invalid, head_invalid, intent_missing ... */
};

int trace_load(struct journal_reader *r, const struct trace_entry *e, struct trace_loaded *out,
               struct err *err) CHECK_RESULT;
void trace_loaded_deinit(struct trace_loaded *l);

/* A field of the result's head, the tail's first; of the intent's. Empty: none, or null. */
struct sv trace_result_field(const struct trace_loaded *l, const char *field);
struct sv trace_intent_field(const struct trace_loaded *l, const char *field);

/* Appends a code to an array of findings unless it is there. */
int trace_add_finding(json_t *findings, const char *code);

#endif
