/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_PROFILE_H
#define SNAFFLE_GATEWAY_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/sv.h"
#include "gateway/request.h"

/*
 * What kinds of engines there are: what each is asked for so that it gives token ids and
 * log-probabilities, and what of its answer nobody but us wanted to see. Tables only; how a profile
 * is chosen stands in docs/internals/gateway.md.
 */

/* How much is asked of the engine. */
enum capture_level { LEVEL_TEXT, LEVEL_LOGPROBS, LEVEL_TOKENS };
const char *level_name(enum capture_level level);

enum engine {
    ENGINE_UNKNOWN,
    ENGINE_VLLM,
    ENGINE_LLAMA_CPP,
    ENGINE_SGLANG,
    ENGINE_OPENAI,
    ENGINE_ROUTER, /* Hugging Face's: one of many engines behind it. */
    ENGINE_TOGETHER,
    ENGINES,
};

/* What an injected field asks for. What an engine refuses, or does not give, is withdrawn by these.
 */
enum ask {
    ASK_LOGPROBS = 1 << 0,
    ASK_ALTERNATIVES = 1 << 1,  /* top_logprobs: left out alone. */
    ASK_IDS = 1 << 2,           /* Lists of ids. */
    ASK_ID_STRINGS = 1 << 3,    /* "token_id:N" in place of the rows' texts. */
    ASK_IDS_AT_END = 1 << 4,    /* One list behind a stream. */
    ASK_PROBABILITIES = 1 << 5, /* llama.cpp's own field. */
    ASK_COUNT = 1 << 6,         /* Log-probabilities, as a number. */
    ASK_USAGE = 1 << 7,
    ASK_NEUTRAL = 1 << 8, /* The fields of neutral sampling. */
    ASK_EVERYTHING = (1 << 9) - 1,
};
#define ASK_ANY_LOGPROBS (ASK_LOGPROBS | ASK_PROBABILITIES | ASK_COUNT)
#define ASK_ANY_IDS (ASK_IDS | ASK_ID_STRINGS | ASK_IDS_AT_END)

struct profile_field {
    enum ask what; /* 0 ends a list. */
    enum request_name field;
};

#define PROFILE_FIELDS_MAX 5u

/* One way to ask, of several from the best down. */
struct profile_rung {
    enum capture_level level;
    bool not_streamed;    /* Refused for streams. */
    bool only_tool_calls; /* For streams with tools only. */
    bool not_tool_calls;  /* Not for those. */
    struct profile_field fields[PROFILE_FIELDS_MAX];
};

#define PROFILE_RUNGS_MAX 5u

struct profile {
    enum engine engine;
    const char *name;
    const char *const *hosts; /* NULL-ended; one that begins with a dot stands for all below. */
    struct sv server;         /* How its Server field begins; empty: it does not tell. */
    int alternatives_max;     /* 0: as many as one likes. */
    struct profile_rung rungs[PROFILE_RUNGS_MAX]; /* Ends with a rung of LEVEL_TEXT. */
    /* How an answer looks that was not asked for log-probabilities: without the key, else null. */
    bool leaves_logprobs_out;
    /* Each chunk has "usage": null when usage was asked for, and only then. */
    bool adds_null_usage;
    /* Without top_logprobs the agent gets some all the same. */
    bool gives_alternatives;
};

const struct profile *profile_of(enum engine e);

/* The one that a name of the configuration stands for, or NULL. */
const struct profile *profile_named(const char *name);
extern const char *const profile_names[]; /* NULL-ended. */

/* By where it is, or by what it says of itself; ENGINE_UNKNOWN when that does not tell. */
enum engine engine_at(struct sv host);
enum engine engine_from_server(struct sv server_field);

/* The best way at most of `level` that needs nothing that was withdrawn. */
const struct profile_rung *profile_rung(const struct profile *p, enum capture_level level,
                                        bool stream, bool tools, unsigned withdrawn);
unsigned profile_asks(const struct profile_rung *r);

#endif
