/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TRAIN_SAMPLING_H
#define SNAFFLE_TRAIN_SAMPLING_H

#include <jansson.h>
#include <stdbool.h>

/*
 * What a request's fields make of the distribution that its answer is sampled from. Fields by the
 * names of vLLM, SGLang, llama.cpp and OpenAI.
 */

/* The fields that the functions below look at; NULL-ended, for json_loose. */
extern const char *const sampling_fields[];

/* The fields leave the distribution as the model gave it, so that log-probabilities before and
 * after sampling are the same. A field that is not there leaves it to the engine, whose default is
 * not known: not neutral but for those whose default is neutral everywhere. NULL: not neutral. */
bool sampling_is_neutral(const json_t *request);

/* Truncation, penalties or a bias are asked for outright. The temperature is none of them. */
bool sampling_is_biased(const json_t *request);

/* The likeliest token is taken (temperature 0), or a beam is searched: nothing is drawn. */
bool sampling_is_greedy(const json_t *request);

/* Tokens are ruled out by a grammar, a schema, a list or a forced tool: engines lay such a mask
 * over the logits first, so that even log-probabilities called raw are taken under it. */
bool sampling_is_constrained(const json_t *request);

#endif
