/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_REWRITE_H
#define SNAFFLE_GATEWAY_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/profile.h"
#include "gateway/request.h"
#include "gateway/splice.h"

/*
 * The documented edits of a chat completions request, spliced into the agent's bytes: key order,
 * number spelling and escapes of all else stay. What the agent itself asked for stays, but for a
 * `false` that would switch the capture off. Without I/O.
 */

struct rewrite_options {
    const struct profile *profile;
    enum capture_level level; /* At most. */
    unsigned withdrawn;       /* enum ask: what is not to be asked for. */
    int top_logprobs;
    long long max_tokens_cap; /* 0: none. */
    bool disable_thinking;
    bool neutral_sampling;      /* At the level of tokens. */
    const char *model_override; /* NULL: the agent's own. */
};

#define REWRITE_EDITS_MAX 20u /* Each field that an edit may touch, and room. */

/* What was changed. `to` lives as long as the rewrite, `from` as long as the request. */
struct rewrite_edit {
    const char *field;
    const char *action; /* set, changed */
    enum ask what;      /* 0: no matter of the capture, and never withdrawn. */
    struct sv from, to; /* JSON values; empty: none. */
};

/* All zero before the first use; may be used again. */
struct rewrite {
    struct splice splice;
    struct buf text; /* The request as it is to be sent, when `n_edits` is not 0. */
    struct rewrite_edit edits[REWRITE_EDITS_MAX];
    size_t n_edits;
    struct buf values;               /* What the edits put in. */
    struct sv model;                 /* As sent: a JSON value, or empty. */
    const struct profile_rung *rung; /* How it was asked. */
    unsigned ours;   /* enum ask: wanted by us, not by the agent; to be taken out of the answer. */
    unsigned wanted; /* enum ask: what is asked for, by us or by the agent. */
};

int rewrite_request(struct rewrite *w, const struct request *r, const struct rewrite_options *o,
                    struct err *err) CHECK_RESULT;
void rewrite_deinit(struct rewrite *w);

/* What an engine's refusal names of the fields that are ours: enum ask, 0 for none. */
unsigned rewrite_named(const struct rewrite *w, struct sv refusal);

/* Appends how the agent's `text` becomes what is sent: a JSON array of [offset, length,
 * replacement]. */
int rewrite_put_splices(const struct rewrite *w, struct sv text, struct buf *out) CHECK_RESULT;

/* Appends the edits as JSON objects {field, action, from, to} with commas between. */
int rewrite_put_edits(const struct rewrite *w, struct buf *out) CHECK_RESULT;

#endif
