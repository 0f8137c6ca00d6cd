/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TRAIN_DERIVE_H
#define SNAFFLE_TRAIN_DERIVE_H

#include "base/buf.h"
#include "base/cancel.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * The prompt's ids of calls whose engine tells none, worked out after the fact: llama.cpp's server
 * is asked for the text that its template makes of the request, and for that text's tokens. What
 * the engine fed is not known by that, so the ids stand under a name of their own ("derived"), and
 * no judgement uses them. Blocking.
 */
struct derive;

struct derive_options {
    const char *base_url; /* The engine's, with "/v1" or without. */
    const char *api_key;  /* NULL: none. */
    const struct cancel *cancel;
};

int derive_open(const struct derive_options *o, struct derive **out, struct err *err) CHECK_RESULT;
void derive_close(struct derive *d);

/* Appends a trace's line, without a line feed. One of llama.cpp without prompt ids gets
 * "derived":{"prompt_token_ids":[...]}, if there are as many as the engine counted; else null there
 * and "why". All others stay as they are. */
int derive_line(struct derive *d, struct sv line, struct buf *out, struct err *err) CHECK_RESULT;

#endif
