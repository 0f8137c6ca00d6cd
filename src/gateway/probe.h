/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_PROBE_H
#define SNAFFLE_GATEWAY_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cancel.h"
#include "base/err.h"
#include "gateway/profile.h"

/*
 * Measures what an endpoint gives: a handful of short calls, asked as the gateway asks, each
 * refusal answered as the gateway would.
 */

/* Answers are cut there: enough for a tool call, and next to nothing to pay. */
#define PROBE_TOKENS_MAX 64
/* Four measurements with what may be refused of each, and the list of models. */
#define PROBE_CALLS_MAX 24u
#define PROBE_MODELS_MAX 64u

struct probe_options {
    const char *base_url;
    const char *api_key; /* NULL: none. */
    const char *engine;  /* A profile's name; NULL: told by its host and its answers. */
    const char *model;   /* NULL: the first that the endpoint lists. */
    const struct cancel *cancel;
};

/* One call, after its refusals. */
struct probe_call {
    int status; /* 0: not made. */
    unsigned refused;
    enum capture_level asked;
    bool prompt_ids;
    uint64_t n_choices, n_ids, n_rows, n_null_rows, n_tools;
    uint64_t usage;   /* 0: not said. */
    bool ids_in_rows; /* As strings or numbers of the rows, not as lists. */
    bool misaligned;
    double gap;    /* Between the two best first tokens; negative: not told. */
    char best[64]; /* The best first token; empty: not told. */
    char error[256];
};

enum probe_logprobs { PROBE_UNKNOWN, PROBE_RAW, PROBE_PROCESSED };

struct probe_report {
    char *model;
    char *models[PROBE_MODELS_MAX];
    unsigned n_models;
    enum engine engine;
    struct probe_call unary, stream, tools, hot; /* `hot`: at temperature 2. */
    enum probe_logprobs logprobs;
    enum capture_level level; /* The least that unary and streamed answers gave. */
    unsigned calls;
    uint64_t tokens; /* Generated, as usage says. */
};

/* ERR_CONNECT and the like when the endpoint does not answer at all; what it refuses is in the
 * report. */
int probe_run(const struct probe_options *o, struct probe_report *out,
              struct err *err) CHECK_RESULT;
void probe_report_deinit(struct probe_report *r);

/* What a call gave: tokens with ids of prompt and answer and a row for each, logprobs with rows. */
enum capture_level probe_call_level(const struct probe_call *c);

#endif
