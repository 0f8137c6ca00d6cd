/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_CAPTURE_H
#define SNAFFLE_GATEWAY_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/chunk.h"
#include "gateway/profile.h"

/*
 * What one call's answer says, put together from its chunks. Everything is kept in the engine's own
 * spelling: texts as the insides of JSON strings, numbers and rows as they came. All zero is empty;
 * capture_reset keeps the memory for the next call.
 */

/* A generation of 128k tokens with top-20 rows is about 300 MB and nothing that a trainer takes;
 * 64k tokens with top-5 rows are 40 MB. Past it rows are only counted, and the record says so. */
#define CAPTURE_BYTES_MAX (64u * 1024 * 1024)
/* Calls that one answer may hold; engines stop far below. */
#define CAPTURE_TOOLS_MAX 256u

struct capture_tool {
    long long index; /* As the engine numbers it; -1 when it does not. */
    struct buf id;
    struct buf type;
    struct buf name;
    struct buf arguments;
    bool joins_two; /* Another id came under the same number. */
};

struct capture_choice {
    bool seen;
    bool has_content; /* A string came, if an empty one. */
    bool has_function_call;
    struct buf content;
    struct buf reasoning;
    struct buf reasoning_content;
    struct buf refusal;
    struct buf content_parts; /* A list, when the content was none. */
    struct buf function_name;
    struct buf function_arguments;
    struct buf finish_reason; /* With its quotes. */
    struct capture_tool *tools;
    size_t n_tools, cap_tools;
    /* Whole JSON lists; nothing when empty. */
    struct buf rows;
    struct buf tokens;
    struct buf logps;
    struct buf ids;     /* Of the engine's id lists. */
    struct buf row_ids; /* Of the rows: `id`, or "token_id:N". */
    size_t n_rows;
    size_t n_ids;
    size_t n_row_ids;
    size_t n_null_logps;      /* Missing, null or not finite; */
    size_t n_nonfinite_logps; /* of those: NaN, an infinity. */
    size_t n_positive_logps;
    size_t n_zero_logps; /* Exactly. */
};

struct capture {
    struct capture_choice *choices;
    size_t n_choices; /* Highest index seen, plus one. */
    size_t cap_choices;
    size_t n_finished;
    struct buf id, created, model, system_fingerprint; /* JSON values. */
    struct buf usage;
    struct buf prompt_ids;     /* The list, or empty. */
    struct buf weight_version; /* Of the answer's metadata: a string or a number. */
    struct buf error;          /* An error that came within the answer. */
    size_t bytes;
    bool over_limit;
    bool has_row_ids_from_engine; /* Rows name their ids. */
    enum engine engine;           /* As its own fields tell. */
    uint64_t n_bad_events;        /* That were no JSON, or not of this API. */
};

/* Adds a chunk, or a whole answer. ERR_NOMEM. */
int capture_add(struct capture *k, const struct chunk *c) CHECK_RESULT;
void capture_reset(struct capture *k);
void capture_deinit(struct capture *k);

/* The ids to be recorded for choice 0: of the lists, else of the rows. */
const struct buf *capture_ids(const struct capture_choice *choice, size_t *n);

/* Tokens of all choices, as usage says, else as the ids do, else as the rows do. */
uint64_t capture_completion_tokens(const struct capture *k);
uint64_t capture_prompt_tokens(const struct capture *k); /* As usage says; 0: it does not. */
/* usage.completion_tokens; false when there is none. */
bool capture_usage_tokens(const struct capture *k, uint64_t *out);

#endif
