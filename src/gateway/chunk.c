/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/chunk.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/chunk_shape.h"
#include "gateway/scan.h"
#include "gateway/text.h"

/* The API's own bound on `n` is 128. */
#define CHUNK_CHOICES_MAX 128u

static int more(void **list, size_t *cap, size_t n, size_t item, size_t first) {
    if (n < *cap) {
        return 0;
    }
    size_t want = *cap ? *cap * 2 : first;
    void *p = realloc(*list, want * item);
    if (!p) {
        return ERR_NOMEM;
    }
    *list = p;
    *cap = want;
    return 0;
}

static int new_row(struct chunk *c, struct chunk_row **out) {
    void *list = c->rows;
    int rc = more(&list, &c->cap_rows, c->n_rows, sizeof *c->rows, 16);
    if (rc < 0) {
        return rc;
    }
    c->rows = list;
    *out = &c->rows[c->n_rows++];
    memset(*out, 0, sizeof **out);
    return 0;
}

static int new_choice(struct chunk *c, struct chunk_choice **out) {
    if (c->n_choices == CHUNK_CHOICES_MAX) {
        return ERR_LIMIT;
    }
    void *list = c->choices;
    int rc = more(&list, &c->cap_choices, c->n_choices, sizeof *c->choices, 1);
    if (rc < 0) {
        return rc;
    }
    c->choices = list;
    *out = &c->choices[c->n_choices++];
    memset(*out, 0, sizeof **out);
    return 0;
}

/* Takes the value that comes next; null leaves `out` empty. */
static int take(struct scan *s, struct sv *out) {
    struct sv value;
    int kind = scan_skip(s, &value);
    if (kind > 0) {
        if (kind == SCAN_NULL) {
            value.n = 0;
        }
        *out = value;
    }
    return kind;
}

static void set_field(struct chunk_field *f, struct sv key, struct sv value, int kind,
                      size_t ordinal) {
    const char *quote = key.p - 1;
    *f = (struct chunk_field){
        .member = {quote, (size_t)(value.p + value.n - quote)},
        .value = value,
        .ordinal = ordinal,
        .has_value = kind != SCAN_NULL,
    };
}

static int take_field(struct scan *s, struct sv key, size_t ordinal, struct chunk_field *out) {
    struct sv value;
    int kind = scan_skip(s, &value);
    if (kind > 0) {
        set_field(out, key, value, kind, ordinal);
    }
    return kind;
}

/* Takes a value that must be of one kind; others count as absent. */
static int take_kind(struct scan *s, int want, struct sv *out) {
    int kind = scan_skip(s, out);
    if (kind > 0 && kind != want) {
        *out = (struct sv){0};
    }
    return kind;
}

static int row_field(struct scan *s, struct sv key, struct chunk_row *row) {
    struct sv other;
    if (text_key_is(s, key, SV("token"))) {
        return take_kind(s, SCAN_STRING, &row->token);
    }
    if (text_key_is(s, key, SV("logprob"))) {
        int kind = scan_skip(s, &row->logprob);
        row->logprob_is_number = kind == SCAN_NUMBER;
        return kind;
    }
    if (text_key_is(s, key, SV("top_logprobs"))) {
        return take_kind(s, SCAN_ARRAY, &row->top_logprobs);
    }
    if (text_key_is(s, key, SV("id"))) {
        return take_kind(s, SCAN_NUMBER, &row->id);
    }
    return scan_skip(s, &other);
}

static int read_row(struct scan *s, struct chunk *c) {
    struct chunk_row *row;
    int rc = new_row(c, &row);
    if (rc < 0) {
        return rc;
    }
    scan_peek(s);
    struct scan_row quick;
    if (scan_row(s, &quick)) {
        *row = chunk_row_of(&quick);
        return 0;
    }
    const char *start = s->p;
    rc = scan_enter_object(s);
    struct sv key;
    while (rc >= 0 && (rc = scan_next_key(s, &key)) == 1) {
        rc = row_field(s, key, row);
    }
    row->text = (struct sv){start, (size_t)(s->p - start)};
    return rc;
}

/* Together's lists, side by side: the same place of each is one token's. */
static int read_column(struct scan *s, struct chunk *c, size_t first, size_t at) {
    size_t i = first;
    int rc = scan_enter_array(s);
    while (rc >= 0 && (rc = scan_next_item(s)) == 1) {
        struct sv value;
        struct chunk_row *row = NULL;
        int kind = scan_skip(s, &value);
        rc = kind < 0 || i < c->n_rows ? kind : new_row(c, &row);
        if (rc >= 0) {
            row = &c->rows[i++];
            *(struct sv *)(void *)((char *)row + at) = value;
            row->logprob_is_number |=
                at == offsetof(struct chunk_row, logprob) && kind == SCAN_NUMBER;
        }
    }
    return rc;
}

static int read_rows(struct scan *s, struct chunk *c) {
    struct sv other;
    int rc = scan_enter_array(s);
    while (rc >= 0 && (rc = scan_next_item(s)) == 1) {
        rc = scan_peek(s) == SCAN_OBJECT ? read_row(s, c) : scan_skip(s, &other);
    }
    return rc;
}

/* The value of `logprobs`, when it is an object: its rows stand in `content`. */
static int read_logprobs(struct scan *s, struct chunk *c) {
    static const struct {
        struct sv name;
        size_t at;
    } columns[] = {
        {{"tokens", 6}, offsetof(struct chunk_row, token)},
        {{"token_ids", 9}, offsetof(struct chunk_row, id)},
        {{"token_logprobs", 14}, offsetof(struct chunk_row, logprob)},
    };
    struct sv key;
    struct sv other;
    size_t first = c->n_rows;
    int rc = scan_enter_object(s);
    while (rc >= 0 && (rc = scan_next_key(s, &key)) == 1) {
        size_t i = 0;
        if (scan_peek(s) != SCAN_ARRAY) {
            rc = scan_skip(s, &other);
            continue;
        }
        while (i < 3 && !text_key_is(s, key, columns[i].name)) {
            i++;
        }
        rc = i < 3                                ? read_column(s, c, first, columns[i].at)
             : text_key_is(s, key, SV("content")) ? read_rows(s, c)
                                                  : scan_skip(s, &other);
    }
    return rc;
}

static int choice_logprobs(struct scan *s, struct sv key, size_t ordinal, struct chunk *c,
                           struct chunk_choice *choice) {
    int kind = scan_peek(s);
    if (kind != SCAN_OBJECT) {
        choice->logprobs_is_number = kind == SCAN_NUMBER;
        return take_field(s, key, ordinal, &choice->logprobs);
    }
    size_t first = c->n_rows;
    const char *start = s->p;
    int rc = read_logprobs(s, c);
    if (rc >= 0) {
        set_field(&choice->logprobs, key, (struct sv){start, (size_t)(s->p - start)}, SCAN_OBJECT,
                  ordinal);
        choice->first_row = first;
        choice->n_rows = c->n_rows - first;
    }
    return rc;
}

static int read_message(struct scan *s, struct chunk_choice *choice) {
    static const struct {
        struct sv name;
        size_t at;
    } fields[] = {
        {{"content", 7}, offsetof(struct chunk_choice, content)},
        {{"role", 4}, offsetof(struct chunk_choice, role)},
        {{"tool_calls", 10}, offsetof(struct chunk_choice, tool_calls)},
        {{"reasoning", 9}, offsetof(struct chunk_choice, reasoning)},
        {{"reasoning_content", 17}, offsetof(struct chunk_choice, reasoning_content)},
        {{"refusal", 7}, offsetof(struct chunk_choice, refusal)},
        {{"function_call", 13}, offsetof(struct chunk_choice, function_call)},
    };
    if (scan_peek(s) != SCAN_OBJECT) {
        return take(s, &choice->message);
    }
    const char *start = s->p;
    struct sv key;
    choice->message_is_empty = true;
    int rc = scan_enter_object(s);
    for (size_t ordinal = 0; rc >= 0 && (rc = scan_next_key(s, &key)) == 1; ordinal++) {
        struct sv other = {0};
        struct sv *out = &other;
        if (text_key_is(s, key, SV("token_id"))) {
            rc = take_field(s, key, ordinal, &choice->token_id);
            continue;
        }
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
            if (text_key_is(s, key, fields[i].name)) {
                out = (struct sv *)(void *)((char *)choice + fields[i].at);
                break;
            }
        }
        rc = take(s, out);
        choice->message_is_empty &= out->n == 0;
    }
    choice->message = (struct sv){start, (size_t)(s->p - start)};
    return rc;
}

static int choice_index(struct scan *s, struct chunk_choice *choice) {
    struct sv value = {0};
    unsigned long long index = 0;
    int rc = take(s, &value);
    if (rc > 0 && sv_parse_u64(value, CHUNK_CHOICES_MAX - 1, &index)) {
        choice->index = (long long)index;
    } else if (rc > 0) {
        choice->index = -1;
    }
    return rc;
}

static int choice_field(struct scan *s, struct sv key, size_t ordinal, struct chunk *c,
                        struct chunk_choice *choice) {
    struct sv other;
    if (text_key_is(s, key, SV("delta")) || text_key_is(s, key, SV("message"))) {
        return read_message(s, choice);
    }
    if (text_key_is(s, key, SV("index"))) {
        return choice_index(s, choice);
    }
    if (text_key_is(s, key, SV("logprobs"))) {
        return choice_logprobs(s, key, ordinal, c, choice);
    }
    if (text_key_is(s, key, SV("finish_reason"))) {
        return take(s, &choice->finish_reason);
    }
    const struct {
        struct sv name;
        struct chunk_field *to;
    } fields[] = {
        {SV("token_ids"), &choice->token_ids},
        {SV("prompt_token_ids"), &choice->prompt_token_ids},
        {SV("response_token_ids"), &choice->response_token_ids},
        {SV("top_logprobs"), &choice->top_logprobs},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (text_key_is(s, key, fields[i].name)) {
            return take_field(s, key, ordinal, fields[i].to);
        }
    }
    choice->has_matched_stop |= text_key_is(s, key, SV("matched_stop"));
    return scan_skip(s, &other);
}

/* A chunk of Together's has one token, and says of it in three places. */
static int add_lone_row(struct chunk *c, struct chunk_choice *choice) {
    struct chunk_row *row;
    int rc = new_row(c, &row);
    if (rc == 0) {
        row->token = choice->content;
        row->logprob = choice->logprobs.value;
        row->logprob_is_number = true;
        row->id = choice->token_id.has_value ? choice->token_id.value : (struct sv){0};
        choice->first_row = c->n_rows - 1;
        choice->n_rows = 1;
    }
    return rc;
}

static int read_choice(struct scan *s, struct chunk *c) {
    struct chunk_choice *choice;
    int rc = new_choice(c, &choice);
    struct sv key;
    rc = rc < 0 ? rc : scan_enter_object(s);
    for (size_t ordinal = 0; rc >= 0 && (rc = scan_next_key(s, &key)) == 1; ordinal++) {
        rc = choice_field(s, key, ordinal, c, choice);
    }
    return rc >= 0 && choice->logprobs_is_number ? add_lone_row(c, choice) : rc;
}

static int read_choices(struct scan *s, struct chunk *c) {
    struct sv other;
    c->n_choices = 0;
    c->n_rows = 0;
    if (scan_peek(s) != SCAN_ARRAY) {
        return scan_skip(s, &other);
    }
    c->has_choices = true;
    int rc = scan_enter_array(s);
    while (rc >= 0 && (rc = scan_next_item(s)) == 1) {
        rc = read_choice(s, c);
    }
    return rc;
}

static int read_sglext(struct scan *s, struct sv key, size_t ordinal, struct chunk *c) {
    if (scan_peek(s) != SCAN_OBJECT) {
        return take_field(s, key, ordinal, &c->sglext);
    }
    const char *start = s->p;
    struct sv inner;
    c->sglext_is_ids = true;
    int rc = scan_enter_object(s);
    for (size_t i = 0; rc >= 0 && (rc = scan_next_key(s, &inner)) == 1; i++) {
        struct chunk_field other = {0};
        struct chunk_field *to = text_key_is(s, inner, SV("input_ids"))    ? &c->input_ids
                                 : text_key_is(s, inner, SV("output_ids")) ? &c->output_ids
                                                                           : &other;
        c->sglext_is_ids &= to != &other;
        rc = take_field(s, inner, i, to);
    }
    set_field(&c->sglext, key, (struct sv){start, (size_t)(s->p - start)}, SCAN_OBJECT, ordinal);
    return rc;
}

static int top_field(struct scan *s, struct sv key, size_t ordinal, struct chunk *c) {
    struct sv other;
    if (text_key_is(s, key, SV("choices"))) {
        return read_choices(s, c);
    }
    if (text_key_is(s, key, SV("usage"))) {
        return take_field(s, key, ordinal, &c->usage);
    }
    if (text_key_is(s, key, SV("id"))) {
        return take(s, &c->id);
    }
    if (text_key_is(s, key, SV("model"))) {
        return take(s, &c->model);
    }
    if (text_key_is(s, key, SV("created"))) {
        return take(s, &c->created);
    }
    if (text_key_is(s, key, SV("system_fingerprint"))) {
        return take(s, &c->system_fingerprint);
    }
    if (text_key_is(s, key, SV("prompt_token_ids"))) {
        return take_field(s, key, ordinal, &c->prompt_token_ids);
    }
    if (text_key_is(s, key, SV("sglext"))) {
        return read_sglext(s, key, ordinal, c);
    }
    if (text_key_is(s, key, SV("metadata"))) {
        return take(s, &c->metadata);
    }
    if (text_key_is(s, key, SV("error"))) {
        return take(s, &c->error);
    }
    return scan_skip(s, &other);
}

static void reset(struct chunk *c) {
    c->id = c->created = c->model = c->system_fingerprint = c->error = c->metadata = (struct sv){0};
    c->usage = c->prompt_token_ids = (struct chunk_field){0};
    c->sglext = c->input_ids = c->output_ids = (struct chunk_field){0};
    c->has_choices = c->nonfinite = c->sglext_is_ids = false;
    c->n_choices = c->n_rows = 0;
}

/* The same bytes elsewhere. */
static struct sv moved(struct sv v, const char *from, const char *to) {
    return v.n > 0 ? (struct sv){to + (v.p - from), v.n} : (struct sv){0};
}

static void copy_prefix_fields(const struct sv from[4], const char *base, const char *to_base,
                               struct sv *const to[4]) {
    for (size_t i = 0; i < 4; i++) {
        *to[i] = moved(from[i], base, to_base);
    }
}

/* `s` stands at the value of `choices`. */
static void learn_prefix(struct chunk *c, const struct scan *s, struct sv text, size_t ordinal) {
    struct chunk_prefix *p = &c->prefix;
    size_t n = (size_t)(s->p - text.p);
    p->n = 0;
    if (n > sizeof p->bytes || s->nonfinite || c->usage.member.n > 0 || c->error.n > 0 ||
        c->prompt_token_ids.member.n > 0 || c->sglext.member.n > 0) {
        return;
    }
    memcpy(p->bytes, text.p, n);
    p->n = n;
    p->ordinal = ordinal;
    const struct sv from[] = {c->id, c->created, c->model, c->system_fingerprint};
    struct sv *const to[] = {&p->id, &p->created, &p->model, &p->system_fingerprint};
    copy_prefix_fields(from, text.p, p->bytes, to);
}

/* True when the text begins as the last one did; then `s` stands at the value of `choices`. */
static bool take_prefix(struct chunk *c, struct scan *s, struct sv text) {
    const struct chunk_prefix *p = &c->prefix;
    if (p->n == 0 || text.n <= p->n || memcmp(text.p, p->bytes, p->n) != 0) {
        return false;
    }
    const struct sv from[] = {p->id, p->created, p->model, p->system_fingerprint};
    struct sv *const to[] = {&c->id, &c->created, &c->model, &c->system_fingerprint};
    copy_prefix_fields(from, p->bytes, text.p, to);
    int rc = scan_enter_object(s);
    BUG_IF(rc < 0); /* These bytes were entered before. */
    s->p = text.p + p->n;
    s->first = false;
    return true;
}

int chunk_parse(struct chunk *c, struct sv text) {
    struct scan s;
    struct sv key;
    size_t ordinal = 0;
    int rc;
    reset(c);
    size_t known = chunk_shape_take(c, text);
    if (known > 0 && known == text.n) {
        return 0;
    }
    if (known > 0) {
        reset(c); /* Something stands behind it. */
    }
    scan_init(&s, text);
    if (take_prefix(c, &s, text)) {
        ordinal = c->prefix.ordinal + 1;
        rc = read_choices(&s, c);
    } else {
        rc = scan_enter_object(&s);
    }
    for (; rc >= 0 && (rc = scan_next_key(&s, &key)) == 1; ordinal++) {
        if (ordinal > 0 && text_key_is(&s, key, SV("choices"))) {
            learn_prefix(c, &s, text, ordinal);
        }
        rc = top_field(&s, key, ordinal, c);
    }
    rc = rc < 0 ? rc : scan_end(&s);
    c->nonfinite = s.nonfinite;
    if (rc >= 0) {
        chunk_shape_learn(c, text);
    }
    return rc < 0 ? rc : 0;
}

size_t chunk_take_known(struct chunk *c, struct sv text) {
    reset(c);
    return c->shape.is_one_line ? chunk_shape_take(c, text) : 0;
}

void chunk_deinit(struct chunk *c) {
    free(c->choices);
    free(c->rows);
    *c = (struct chunk){0};
}
