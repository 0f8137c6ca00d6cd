/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_REQUEST_H
#define SNAFFLE_GATEWAY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/* A chat completions request, read in one pass. Everything is a span of its bytes. */

/* A field of an object. The last of equal keys counts. */
struct request_field {
    struct sv member; /* From the key's quote to the value's end. */
    struct sv value;
    int kind; /* enum scan_kind; 0: absent. */
    size_t ordinal;
};

/* An object's own place for one more member. */
struct request_place {
    const char *at; /* Behind the last member's value, or behind the brace. */
    bool is_empty;
};

enum request_name {
    REQUEST_MODEL,
    REQUEST_STREAM,
    REQUEST_STREAM_OPTIONS,
    REQUEST_LOGPROBS,
    REQUEST_TOP_LOGPROBS,
    REQUEST_RETURN_TOKEN_IDS,
    REQUEST_RETURN_TOKENS_AS_TOKEN_IDS,
    REQUEST_RETURN_INPUT_IDS,
    REQUEST_RETURN_OUTPUT_IDS,
    REQUEST_N_PROBS,
    REQUEST_CHAT_TEMPLATE_KWARGS,
    REQUEST_TOOLS,
    REQUEST_INCLUDE_REASONING,
    /* From here on: what the record calls sampling. */
    REQUEST_TEMPERATURE,
    REQUEST_TOP_P,
    REQUEST_TOP_K,
    REQUEST_MIN_P,
    REQUEST_PRESENCE_PENALTY,
    REQUEST_FREQUENCY_PENALTY,
    REQUEST_REPETITION_PENALTY,
    REQUEST_SEED,
    REQUEST_N,
    REQUEST_STOP,
    REQUEST_LOGIT_BIAS,
    REQUEST_MIN_TOKENS,
    REQUEST_MAX_TOKENS,
    REQUEST_MAX_COMPLETION_TOKENS,
    REQUEST_REASONING_EFFORT,
    REQUEST_NAMES,
};

struct request {
    struct sv text; /* The object, without blanks around it. */
    struct request_field fields[REQUEST_NAMES];
    struct request_place place;
    struct request_field include_usage; /* In stream_options. */
    struct request_place stream_options_place;
    struct request_field enable_thinking; /* In chat_template_kwargs. */
    struct request_place kwargs_place;
};

/* ERR_INPUT: no JSON object; ERR_LIMIT: nested too deep. */
int request_parse(struct request *r, struct sv text, struct err *err) CHECK_RESULT;

bool request_is_stream(const struct request *r);
bool request_has_tools(const struct request *r);
unsigned request_n(const struct request *r); /* How many choices; 1 to 128. */

/* Null counts as absent: APIs read it so. */
bool request_has(const struct request *r, enum request_name name);

/* The agent itself asks for log-probabilities, ids, usage (in its stream). */
bool request_asks_logprobs(const struct request *r);
bool request_asks_token_ids(const struct request *r);
bool request_asks(const struct request *r, enum request_name name); /* It is `true`. */
struct sv request_name_text(enum request_name name);
bool request_asks_usage(const struct request *r);

bool request_is_sampling(struct sv name);

/* Appends the sampling fields that are there as a JSON object, values as spelled. */
int request_put_sampling(const struct request *r, struct buf *out) CHECK_RESULT;

#endif
