/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_TOKENS_H
#define SNAFFLE_TESTS_SCRIPTED_TOKENS_H

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * The toy tokenizer: an id below 256 is one byte, the next 65,536 are pairs of bytes, then come the
 * special tokens. So every id has one text, ids and text always agree, and a text that begins like
 * another has ids that begin alike up to the pair in which they part.
 *
 * The chat template puts each message between <|im_start|> and <|im_end|>; the generation prompt
 * is an opened assistant message. An assistant message in the history is rendered piece by piece as
 * it was generated, so the next prompt's ids begin with this prompt's and this completion's.
 */

enum {
    TOKEN_PAIRS = 256,
    TOKEN_IM_START = TOKEN_PAIRS + 65536,
    TOKEN_IM_END, /* Also the end of a completion. */
    TOKEN_THINK,
    TOKEN_THINK_END,
    TOKEN_CALL,
    TOKEN_CALL_END,
    TOKEN_COUNT
};

/* What a generated token's text becomes in the answer. */
enum token_part { PART_SILENT, PART_TEXT, PART_REASONING, PART_CALL_NAME, PART_CALL_ARGUMENTS };

struct token {
    uint32_t id;
    uint16_t call; /* Which tool call, for the last two parts. */
    uint8_t part;
};

/* All zero is empty; the holder calls tokens_deinit. */
struct tokens {
    struct token *v;
    size_t n, cap;
};

void tokens_deinit(struct tokens *t);

/* An assistant message's inside: reasoning, content, tool calls. */
int tokens_add_assistant(struct tokens *t, const json_t *message) CHECK_RESULT;
int tokens_add_special(struct tokens *t, uint32_t id) CHECK_RESULT;

/* The prompt of a chat request: tools, messages, generation prompt. */
int tokens_add_prompt(struct tokens *t, const json_t *request) CHECK_RESULT;

/* Appends the token's bytes. */
int token_text(uint32_t id, struct buf *out) CHECK_RESULT;

/* A log-probability in units of 1e-8, always < 0: the same for the same place, choice and id. */
int64_t token_logprob(size_t position, unsigned choice, uint32_t id);
/* The id that stands at `rank` (1: next best) beside `id` at that place; never `id` itself. */
uint32_t token_alternative(size_t position, unsigned choice, uint32_t id, unsigned rank);

#endif
