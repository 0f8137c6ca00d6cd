/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/chunk_shape.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

enum { VALUE_CONTENT, VALUE_ROW, VALUE_IDS };

/* Every span of a chunk that may stand in what stays the same. */
#define FIELD_SPANS(at)                                                                            \
    (at) + offsetof(struct chunk_field, member), (at) + offsetof(struct chunk_field, value)
static const unsigned short chunk_spans[] = {
    offsetof(struct chunk, id),
    offsetof(struct chunk, created),
    offsetof(struct chunk, model),
    offsetof(struct chunk, system_fingerprint),
    offsetof(struct chunk, error),
    offsetof(struct chunk, metadata),
    FIELD_SPANS(offsetof(struct chunk, usage)),
    FIELD_SPANS(offsetof(struct chunk, prompt_token_ids)),
};
static const unsigned short choice_spans[] = {
    FIELD_SPANS(offsetof(struct chunk_choice, logprobs)),
    FIELD_SPANS(offsetof(struct chunk_choice, token_ids)),
    FIELD_SPANS(offsetof(struct chunk_choice, prompt_token_ids)),
    offsetof(struct chunk_choice, finish_reason),
    offsetof(struct chunk_choice, message),
    offsetof(struct chunk_choice, role),
    offsetof(struct chunk_choice, reasoning),
    offsetof(struct chunk_choice, reasoning_content),
    offsetof(struct chunk_choice, refusal),
    offsetof(struct chunk_choice, tool_calls),
    offsetof(struct chunk_choice, function_call),
};

static bool take_value(struct scan *s, unsigned which, struct sv *value, struct scan_row *row) {
    if (which == VALUE_CONTENT) {
        return scan_string(s, value);
    }
    if (which == VALUE_IDS) {
        return scan_int_list(s, value);
    }
    if (!scan_row(s, row)) {
        return false;
    }
    *value = row->text;
    return true;
}

struct chunk_row chunk_row_of(const struct scan_row *r) {
    return (struct chunk_row){.text = r->text,
                              .token = r->token,
                              .logprob = r->logprob,
                              .top_logprobs = r->top_logprobs,
                              .logprob_is_number = true};
}

/* --- what is known is found again --- */

static const char *place(const struct chunk_shape_place *at, const char *const *pieces) {
    return pieces[at->piece] + at->offset;
}

static void set_spans(const struct chunk_shape *shape, struct chunk *c, const char *const *pieces) {
    for (unsigned i = 0; i < shape->n_spans; i++) {
        const struct chunk_shape_span *span = &shape->spans[i];
        char *base = span->in_choice ? (char *)c->choices : (char *)c;
        const char *from = place(&span->from, pieces);
        *(struct sv *)(void *)(base + span->field) =
            (struct sv){from, (size_t)(place(&span->to, pieces) - from)};
    }
}

size_t chunk_shape_take(struct chunk *c, struct sv text) {
    const struct chunk_shape *shape = &c->shape;
    const char *pieces[CHUNK_SHAPE_VALUES + 1];
    struct sv values[CHUNK_SHAPE_VALUES];
    struct scan_row row;
    struct scan s;
    size_t at = 0;
    if (shape->n_values == 0) {
        return 0;
    }
    scan_init(&s, text);
    for (unsigned i = 0;; i++) {
        size_t n = shape->ends[i] - at;
        if ((size_t)(s.end - s.p) < n || memcmp(s.p, shape->bytes + at, n) != 0) {
            return 0;
        }
        pieces[i] = s.p;
        s.p += n;
        at += n;
        if (i == shape->n_values) {
            break;
        }
        if (!take_value(&s, i, &values[i], &row)) {
            return 0;
        }
    }
    c->usage = shape->usage;
    c->prompt_token_ids = shape->prompt_token_ids;
    c->has_choices = true;
    c->n_choices = c->n_rows = 1;
    c->choices[0] = shape->choice;
    set_spans(shape, c, pieces);
    c->choices[0].content = values[VALUE_CONTENT];
    c->rows[0] = chunk_row_of(&row);
    if (shape->n_values > VALUE_IDS) {
        c->choices[0].token_ids.value = values[VALUE_IDS];
    }
    return (size_t)(s.p - text.p);
}

/* --- learning --- */

/* The pieces of the text that is learned from. */
struct cut {
    const char *from[CHUNK_SHAPE_VALUES + 1];
    const char *to[CHUNK_SHAPE_VALUES + 1];
    unsigned n;
};

static bool find_place(const struct cut *cut, const char *p, struct chunk_shape_place *out) {
    for (unsigned i = 0; i < cut->n; i++) {
        if (p >= cut->from[i] && p <= cut->to[i]) {
            *out = (struct chunk_shape_place){(unsigned char)i, (unsigned short)(p - cut->from[i])};
            return true;
        }
    }
    return false;
}

static bool learn_spans(struct chunk_shape *shape, const struct cut *cut, const void *base,
                        const unsigned short *fields, size_t n, bool in_choice) {
    for (size_t i = 0; i < n; i++) {
        const struct sv *v = (const struct sv *)(const void *)((const char *)base + fields[i]);
        bool is_value = in_choice && cut->n > CHUNK_SHAPE_VALUES &&
                        fields[i] == offsetof(struct chunk_choice, token_ids.value);
        if (!v->p || is_value) {
            continue;
        }
        struct chunk_shape_span span = {.field = fields[i], .in_choice = in_choice};
        if (!find_place(cut, v->p, &span.from) || !find_place(cut, v->p + v->n, &span.to)) {
            return false;
        }
        shape->spans[shape->n_spans++] = span;
    }
    return true;
}

/* Cuts the text at its values; false when it is not of this kind. */
static bool cut_text(const struct chunk *c, struct sv text, struct cut *cut) {
    const struct chunk_choice *choice = c->choices;
    struct sv values[] = {choice->content, c->rows[0].text, choice->token_ids.value};
    unsigned n = choice->token_ids.has_value ? 3 : 2;
    const char *at = text.p;
    struct sv value;
    struct scan_row row;
    for (unsigned i = 0; i < n; i++) {
        struct scan s;
        scan_init(&s, values[i]);
        if (values[i].p < at || !take_value(&s, i, &value, &row) || value.n != values[i].n) {
            return false;
        }
        cut->from[i] = at;
        cut->to[i] = values[i].p;
        at = values[i].p + values[i].n;
    }
    cut->from[n] = at;
    cut->to[n] = text.p + text.n;
    cut->n = n + 1;
    return true;
}

void chunk_shape_learn(struct chunk *c, struct sv text) {
    struct chunk_shape *shape = &c->shape;
    struct cut cut;
    size_t n = 0;
    if (c->n_choices != 1 || c->n_rows != 1 || c->nonfinite || !cut_text(c, text, &cut)) {
        return; /* What is known may still come again. */
    }
    shape->n_values = shape->n_spans = 0;
    for (unsigned i = 0; i < cut.n; i++) {
        size_t piece = (size_t)(cut.to[i] - cut.from[i]);
        if (piece > sizeof shape->bytes - n) {
            return;
        }
        memcpy(shape->bytes + n, cut.from[i], piece);
        n += piece;
        shape->ends[i] = (unsigned short)n;
    }
    shape->is_one_line = !memchr(shape->bytes, '\n', n) && !memchr(shape->bytes, '\r', n);
    shape->usage = c->usage;
    shape->prompt_token_ids = c->prompt_token_ids;
    shape->choice = c->choices[0];
    if (learn_spans(shape, &cut, c, chunk_spans, ARRAY_LEN(chunk_spans), false) &&
        learn_spans(shape, &cut, c->choices, choice_spans, ARRAY_LEN(choice_spans), true)) {
        shape->n_values = (unsigned char)(cut.n - 1);
    }
}
