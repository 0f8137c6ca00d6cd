/* SPDX-License-Identifier: BSD-3-Clause */
/* Two lines: the second reads alike whether or not the first was read before it, and whether or not
 * its end was known before. */
#include <stdint.h>
#include <string.h>

#include "gateway/chunk.h"

static void same(struct sv a, struct sv b) {
    BUG_IF(a.n != b.n || (a.n > 0 && a.p != b.p));
}

static void same_field(struct chunk_field a, struct chunk_field b) {
    same(a.member, b.member);
    same(a.value, b.value);
    BUG_IF(a.ordinal != b.ordinal || a.has_value != b.has_value);
}

static void same_choice(const struct chunk_choice *a, const struct chunk_choice *b) {
    const struct sv spans[][2] = {
        {a->content, b->content},     {a->message, b->message},
        {a->role, b->role},           {a->finish_reason, b->finish_reason},
        {a->reasoning, b->reasoning}, {a->reasoning_content, b->reasoning_content},
        {a->refusal, b->refusal},     {a->tool_calls, b->tool_calls},
    };
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        same(spans[i][0], spans[i][1]);
    }
    same_field(a->logprobs, b->logprobs);
    same_field(a->token_ids, b->token_ids);
    same_field(a->prompt_token_ids, b->prompt_token_ids);
    BUG_IF(a->index != b->index || a->message_is_empty != b->message_is_empty);
    BUG_IF(a->first_row != b->first_row || a->n_rows != b->n_rows);
}

static void same_chunk(const struct chunk *a, const struct chunk *b) {
    BUG_IF(a->n_choices != b->n_choices || a->n_rows != b->n_rows ||
           a->has_choices != b->has_choices || a->nonfinite != b->nonfinite);
    same(a->id, b->id);
    same(a->model, b->model);
    same(a->error, b->error);
    same_field(a->usage, b->usage);
    same_field(a->prompt_token_ids, b->prompt_token_ids);
    for (size_t i = 0; i < a->n_choices; i++) {
        same_choice(&a->choices[i], &b->choices[i]);
    }
    for (size_t i = 0; i < a->n_rows; i++) {
        same(a->rows[i].text, b->rows[i].text);
        same(a->rows[i].token, b->rows[i].token);
        same(a->rows[i].logprob, b->rows[i].logprob);
        same(a->rows[i].top_logprobs, b->rows[i].top_logprobs);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *line = size ? memchr(data, '\n', size) : NULL;
    struct sv first = {(const char *)data, line ? (size_t)(line - (const char *)data) : size};
    struct sv second = sv_cut((struct sv){(const char *)data, size}, first.n + 1);
    struct chunk c = {0};
    struct chunk fresh = {0};
    (void)!chunk_parse(&c, first);
    size_t known = chunk_take_known(&c, second);
    if (known > 0) { /* It goes on behind the chunk, which is one all the same. */
        BUG_IF(known > second.n || memchr(second.p, '\n', known) || memchr(second.p, '\r', known));
        BUG_IF(chunk_parse(&fresh, (struct sv){second.p, known}) < 0);
        same_chunk(&c, &fresh);
    }
    int rc = chunk_parse(&c, second);
    BUG_IF(rc != chunk_parse(&fresh, second));
    if (rc == 0) {
        same_chunk(&c, &fresh);
    }
    chunk_deinit(&c);
    chunk_deinit(&fresh);
    return 0;
}
