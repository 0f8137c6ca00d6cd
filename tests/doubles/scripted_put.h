/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SCRIPTED_PUT_H
#define SNAFFLE_TESTS_SCRIPTED_PUT_H

#include "tests/doubles/scripted_answer.h"

/* The pieces of an answer that bodies and events share. */

struct span {
    size_t from, to; /* Tokens of the completion. */
};

/* The value of "logprobs" for these tokens of a choice: null when nobody asked. */
int put_logprobs(const struct turn *t, unsigned choice, struct span s,
                 struct buf *out) CHECK_RESULT;

/* `,"token_ids":[...]` with these tokens; null or nothing when nobody asked, or `missing`. */
int put_token_ids(const struct turn *t, struct span s, bool missing, struct buf *out) CHECK_RESULT;
int put_prompt_ids(const struct turn *t, bool missing, struct buf *out) CHECK_RESULT;

/* The usage object after this many tokens of each choice. */
int put_usage(const struct turn *t, size_t tokens, struct buf *out) CHECK_RESULT;

/* The id of a tool call of a choice, with its quotes. */
int put_call_id(const struct turn *t, unsigned choice, unsigned call, struct buf *out) CHECK_RESULT;

/* What engines before the ones that write null for ids did not have. */
int put_newer(const struct turn *t, const char *members, struct buf *out) CHECK_RESULT;

/* "null" or the quoted text. */
int put_text_or_null(const char *text, struct buf *out) CHECK_RESULT;

#endif
