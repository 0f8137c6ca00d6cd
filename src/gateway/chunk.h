/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_CHUNK_H
#define SNAFFLE_GATEWAY_CHUNK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sv.h"

/*
 * One answer of the chat completions API, taken apart in one pass: a whole answer, or one chunk of
 * a streamed one. Everything is a span of the answer's bytes; a field that is absent or null has
 * no bytes (n == 0), unless said otherwise. The last of equal keys counts.
 */

/* A field that may have to be taken out or changed on the way to the agent. */
struct chunk_field {
    struct sv member; /* From the key's quote to the value's end; empty: absent. */
    struct sv value;  /* Also when it is null. */
    size_t ordinal;   /* Of the member in its object, from 0. */
    bool has_value;   /* There and not null. */
};

/* One row of log-probabilities. */
struct chunk_row {
    struct sv text;  /* The whole row; empty where an engine has no rows, but lists (Together). */
    struct sv token; /* With its quotes. */
    struct sv logprob;
    struct sv id;           /* llama.cpp adds the token's id; Together gives it beside. */
    struct sv top_logprobs; /* The list. */
    bool logprob_is_number; /* Not null, NaN or an infinity. */
};

struct chunk_choice {
    long long index;
    struct chunk_field logprobs;
    struct chunk_field token_ids;
    struct chunk_field prompt_token_ids;   /* SGLang puts them here. */
    struct chunk_field response_token_ids; /* Its own name for token_ids. */
    struct chunk_field top_logprobs;       /* Together's, beside a number as `logprobs`. */
    struct chunk_field token_id;           /* Together's, in `delta`. */
    bool logprobs_is_number;
    bool has_matched_stop;   /* SGLang's word, if null. */
    struct sv finish_reason; /* With its quotes. */
    struct sv message;       /* `delta` or `message`: the object. */
    bool message_is_empty;   /* {}, or nothing but nulls. */
    struct sv role;
    struct sv content; /* A string with its quotes, or a list of parts. */
    struct sv reasoning;
    struct sv reasoning_content;
    struct sv refusal;
    struct sv tool_calls; /* The list. */
    struct sv function_call;
    size_t first_row; /* In chunk.rows. */
    size_t n_rows;
};

/* The chunks of a stream begin alike, up to `choices`: what was read of one holds for the next. */
#define CHUNK_PREFIX_MAX 512u /* About 150 bytes; model names may be long paths. */
struct chunk_prefix {
    char bytes[CHUNK_PREFIX_MAX];
    size_t n;                                         /* 0: none is known. */
    size_t ordinal;                                   /* Of `choices`. */
    struct sv id, created, model, system_fingerprint; /* In `bytes`. */
};

/* What the chunks of a stream have in common but for their values (chunk_shape.h). */
#define CHUNK_SHAPE_MAX 1024u /* About 300 bytes. */
#define CHUNK_SHAPE_VALUES 3
#define CHUNK_SHAPE_SPANS_MAX 24u /* All there are: 10 of a chunk and 14 of its choice. */
struct chunk_shape_place {
    unsigned char piece; /* Behind which value it stands, from 0: before all. */
    unsigned short offset;
};
struct chunk_shape_span {
    unsigned short field; /* Where the span is in struct chunk, or in its choice. */
    bool in_choice;
    struct chunk_shape_place from, to;
};
struct chunk_shape {
    char bytes[CHUNK_SHAPE_MAX];
    unsigned short ends[CHUNK_SHAPE_VALUES + 1]; /* Of the pieces in `bytes`. */
    unsigned char n_values;                      /* 0: none is known; 2: chunks without ids. */
    unsigned char n_spans;
    bool is_one_line;
    struct chunk_shape_span spans[CHUNK_SHAPE_SPANS_MAX];
    struct chunk_field usage, prompt_token_ids;
    struct chunk_choice choice;
};

struct chunk {
    struct sv id;
    struct sv created;
    struct sv model;
    struct sv system_fingerprint;
    struct sv error;
    struct sv metadata; /* SGLang says there which weights answered. */
    struct chunk_field usage;
    struct chunk_field sglext;                /* SGLang's own object. */
    struct chunk_field input_ids, output_ids; /* In it. */
    bool sglext_is_ids;                       /* It holds nothing else. */
    struct chunk_field prompt_token_ids;
    bool has_choices; /* The key is there, with a list. */
    bool nonfinite;   /* The text holds a NaN or an infinity. */
    struct chunk_choice *choices;
    size_t n_choices, cap_choices;
    struct chunk_row *rows;
    size_t n_rows, cap_rows;
    struct chunk_prefix prefix;
    struct chunk_shape shape;
};

/* Fills `c`, whose lists are used again. ERR_INPUT, ERR_LIMIT: no JSON object, or `choices` is not
 * what it should be; ERR_NOMEM. */
int chunk_parse(struct chunk *c, struct sv text) CHECK_RESULT;

/* A quick way, for a text that may go on behind its chunk: fills `c` and gives how many bytes the
 * chunk has, if it is like one before it but for its values, and has no line ends. 0: find its end
 * in another way. */
size_t chunk_take_known(struct chunk *c, struct sv text);
void chunk_deinit(struct chunk *c);

#endif
