/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/capture.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/capture_tools.h"
#include "gateway/scan.h"
#include "gateway/text.h"

/* Buffers above this are given back after a call, so that the few that are kept for reuse don't
 * each hold the size of their greatest answer. The rows of 500 tokens fit, as do the ids of 80,000.
 */
#define CAPTURE_KEEP_MAX (512u * 1024)

int capture_add_bytes(struct capture *k, struct buf *b, struct sv bytes) {
    if (k->bytes + bytes.n > CAPTURE_BYTES_MAX) {
        k->over_limit = true;
        return 0;
    }
    k->bytes += bytes.n;
    return buf_add_sv(b, bytes);
}

/* The list stays a whole one: the bracket at its end makes room for each further item. */
static int add_item(struct capture *k, struct buf *list, struct sv item) {
    if (k->over_limit || k->bytes + item.n + 1 > CAPTURE_BYTES_MAX) {
        k->over_limit = true;
        return 0;
    }
    int rc = buf_reserve(list, item.n + 2);
    if (rc < 0) {
        return rc;
    }
    bool is_first = list->len == 0;
    char *p = list->data + list->len - !is_first;
    *p++ = is_first ? '[' : ',';
    memcpy(p, item.p, item.n);
    p[item.n] = ']';
    p[item.n + 1] = '\0';
    list->len = (size_t)(p + item.n + 1 - list->data);
    k->bytes += item.n + 1;
    return 0;
}

/* The last one said counts. */
static int put(struct buf *b, struct sv value) {
    if (value.n == 0) {
        return 0;
    }
    buf_reset(b);
    return buf_add_sv(b, value);
}

static int choice_at(struct capture *k, long long index, struct capture_choice **out) {
    size_t want = index < 0 ? 0 : (size_t)index;
    if (want >= k->cap_choices) {
        struct capture_choice *list = realloc(k->choices, (want + 1) * sizeof *list);
        if (!list) {
            return ERR_NOMEM;
        }
        memset(list + k->cap_choices, 0, (want + 1 - k->cap_choices) * sizeof *list);
        k->choices = list;
        k->cap_choices = want + 1;
    }
    if (want >= k->n_choices) {
        k->n_choices = want + 1;
    }
    *out = &k->choices[want];
    (*out)->seen = true;
    return 0;
}

static size_t count_items(struct sv list) {
    size_t n = list.n > 0;
    for (const char *p = list.p; p && (p = memchr(p, ',', (size_t)(list.p + list.n - p))); p++) {
        n++;
    }
    return n;
}

static int add_ids(struct capture *k, struct capture_choice *choice, struct sv list) {
    if (list.n < 2 || list.p[0] != '[') {
        return 0;
    }
    struct sv inner = sv_trim((struct sv){list.p + 1, list.n - 2});
    choice->n_ids += count_items(inner);
    if (inner.n == 0 || !memchr(inner.p, ' ', inner.n)) {
        return inner.n > 0 ? add_item(k, &choice->ids, inner) : 0;
    }
    /* Compared byte by byte with the ids of the rows later: blanks would differ. */
    AUTO_BUF struct buf dense = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < inner.n; i++) {
        rc = inner.p[i] > ' ' ? buf_addc(&dense, inner.p[i]) : 0;
    }
    return rc < 0 ? rc : add_item(k, &choice->ids, buf_sv(&dense));
}

/* "token_id:123" gives 123. */
static bool id_of_token(struct sv token, struct sv *out) {
    static const char prefix[] = "\"token_id:";
    const size_t n = sizeof prefix - 1;
    unsigned long long id;
    if (token.n <= n + 1 || memcmp(token.p, prefix, n) != 0) {
        return false;
    }
    *out = (struct sv){token.p + n, token.n - n - 1};
    return sv_parse_u64(*out, UINT32_MAX, &id);
}

static bool is_zero(struct sv number) {
    for (size_t i = 0; i < number.n && (number.p[i] | 0x20) != 'e'; i++) {
        if (number.p[i] >= '1' && number.p[i] <= '9') {
            return false;
        }
    }
    return true;
}

/* Where an engine has no rows, one in the shape that all have. */
static int add_made_row(struct capture *k, struct capture_choice *choice,
                        const struct chunk_row *row) {
    AUTO_BUF struct buf made = {0};
    int rc = buf_addf(&made, "{\"token\":%.*s,\"logprob\":%.*s",
                      SV_ARG(row->token.n > 0 ? row->token : SV("null")),
                      SV_ARG(row->logprob_is_number ? row->logprob : SV("null")));
    if (rc == 0 && row->id.n > 0) {
        rc = buf_addf(&made, ",\"id\":%.*s", SV_ARG(row->id));
    }
    rc = rc < 0 ? rc : buf_addc(&made, '}');
    return rc < 0 ? rc : add_item(k, &choice->rows, buf_sv(&made));
}

static int add_row(struct capture *k, struct capture_choice *choice, const struct chunk_row *row,
                   bool nonfinite) {
    choice->n_rows++;
    if (!row->logprob_is_number) {
        choice->n_null_logps++;
        choice->n_nonfinite_logps += row->logprob.n > 0 && strchr("NI-", row->logprob.p[0]) != NULL;
    } else if (is_zero(row->logprob)) {
        choice->n_zero_logps++;
    } else if (row->logprob.p[0] != '-') {
        choice->n_positive_logps++;
    }
    struct sv id = row->id;
    if (id.n > 0) {
        k->has_row_ids_from_engine = true;
        k->engine = row->text.n > 0 ? ENGINE_LLAMA_CPP : ENGINE_TOGETHER;
    } else if (!id_of_token(row->token, &id)) {
        id.n = 0;
    }
    int rc = add_item(k, &choice->tokens, row->token.n > 0 ? row->token : SV("null"));
    rc = rc < 0 ? rc
                : add_item(k, &choice->logps, row->logprob_is_number ? row->logprob : SV("null"));
    if (rc == 0 && id.n > 0) {
        choice->n_row_ids++;
        rc = add_item(k, &choice->row_ids, id);
    }
    if (rc == 0 && row->text.n == 0) {
        return add_made_row(k, choice, row);
    }
    if (rc < 0 || !nonfinite) {
        return rc < 0 ? rc : add_item(k, &choice->rows, row->text);
    }
    AUTO_BUF struct buf finite = {0};
    rc = text_copy_finite(row->text, &finite);
    return rc < 0 ? rc : add_item(k, &choice->rows, buf_sv(&finite));
}

static int add_rows(struct capture *k, struct capture_choice *choice, const struct chunk *c,
                    const struct chunk_choice *from) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < from->n_rows; i++) {
        rc = add_row(k, choice, &c->rows[from->first_row + i], c->nonfinite);
    }
    return rc;
}

static int add_content(struct capture *k, struct capture_choice *choice, struct sv content) {
    if (content.n == 0) {
        return 0;
    }
    if (content.p[0] != '"') {
        return put(&choice->content_parts, content);
    }
    choice->has_content = true;
    return capture_add_bytes(k, &choice->content, text_inner(content));
}

static int add_message(struct capture *k, struct capture_choice *choice,
                       const struct chunk_choice *from) {
    int rc = add_content(k, choice, from->content);
    rc = rc < 0 ? rc : capture_add_bytes(k, &choice->reasoning, text_inner(from->reasoning));
    rc = rc < 0 ? rc
                : capture_add_bytes(k, &choice->reasoning_content,
                                    text_inner(from->reasoning_content));
    rc = rc < 0 ? rc : capture_add_bytes(k, &choice->refusal, text_inner(from->refusal));
    if (rc == 0 && from->function_call.n > 0) {
        rc = capture_add_function(k, choice, from->function_call);
    }
    if (rc == 0 && from->tool_calls.n > 0) {
        rc = capture_add_tools(k, choice, from->tool_calls);
    }
    return rc;
}

static int add_choice(struct capture *k, const struct chunk *c, const struct chunk_choice *from) {
    struct capture_choice *choice;
    int rc = choice_at(k, from->index, &choice);
    if (from->has_matched_stop) {
        k->engine = ENGINE_SGLANG;
    } else if (from->token_id.has_value) {
        k->engine = ENGINE_TOGETHER;
    }
    rc = rc < 0 ? rc : add_message(k, choice, from);
    rc = rc < 0 ? rc : add_rows(k, choice, c, from);
    rc = rc < 0 ? rc : add_ids(k, choice, from->token_ids.value);
    rc = rc < 0 ? rc : add_ids(k, choice, from->response_token_ids.value);
    if (rc == 0 && from->prompt_token_ids.has_value && k->prompt_ids.len == 0) {
        rc = capture_add_bytes(k, &k->prompt_ids, from->prompt_token_ids.value);
    }
    if (rc == 0 && from->finish_reason.n > 0) {
        k->n_finished += choice->finish_reason.len == 0;
        rc = put(&choice->finish_reason, from->finish_reason);
    }
    return rc;
}

static int add_weight_version(struct capture *k, struct sv metadata) {
    struct scan s;
    struct sv key, value;
    int rc = 0;
    scan_init(&s, metadata);
    if (scan_peek(&s) != SCAN_OBJECT || scan_enter_object(&s) < 0) {
        return 0;
    }
    while (rc == 0 && scan_next_key(&s, &key) == 1) {
        bool is_it = text_key_is(&s, key, SV("weight_version"));
        int kind = scan_skip(&s, &value);
        if (kind < 0) {
            break;
        }
        if (is_it && (kind == SCAN_STRING || kind == SCAN_NUMBER)) {
            rc = put(&k->weight_version, value);
        }
    }
    return rc;
}

/* A list of lists: one of each choice. */
static int add_output_ids(struct capture *k, struct sv lists) {
    struct scan s;
    struct sv list;
    int rc = 0;
    scan_init(&s, lists);
    if (scan_enter_array(&s) < 0) {
        return 0;
    }
    for (size_t i = 0; rc == 0 && i < k->n_choices && scan_next_item(&s) == 1; i++) {
        if (scan_skip(&s, &list) < 0) {
            break;
        }
        /* The same ids may have come in the choice too. */
        rc = k->choices[i].n_ids == 0 ? add_ids(k, &k->choices[i], list) : 0;
    }
    return rc;
}

static int add_sglext(struct capture *k, const struct chunk *c) {
    int rc = 0;
    if (c->input_ids.has_value && k->prompt_ids.len == 0) {
        rc = capture_add_bytes(k, &k->prompt_ids, c->input_ids.value);
    }
    return rc == 0 && c->output_ids.has_value ? add_output_ids(k, c->output_ids.value) : rc;
}

int capture_add(struct capture *k, const struct chunk *c) {
    int rc = 0;
    if (k->id.len == 0) {
        rc = put(&k->id, c->id);
        rc = rc < 0 ? rc : put(&k->created, c->created);
        rc = rc < 0 ? rc : put(&k->model, c->model);
    }
    rc = rc < 0 ? rc : put(&k->system_fingerprint, c->system_fingerprint);
    rc = rc < 0 ? rc : put(&k->error, c->error);
    if (rc == 0 && c->metadata.n > 0) {
        rc = add_weight_version(k, c->metadata);
    }
    if (rc == 0 && c->usage.has_value) {
        rc = put(&k->usage, c->usage.value);
    }
    if (rc == 0 && c->prompt_token_ids.has_value && k->prompt_ids.len == 0) {
        k->engine = ENGINE_VLLM;
        rc = capture_add_bytes(k, &k->prompt_ids, c->prompt_token_ids.value);
    }
    for (size_t i = 0; rc == 0 && i < c->n_choices; i++) {
        rc = add_choice(k, c, &c->choices[i]);
    }
    return rc < 0 ? rc : add_sglext(k, c);
}

static void clear(struct buf *b) {
    if (b->cap > CAPTURE_KEEP_MAX) {
        buf_deinit(b);
    } else {
        buf_reset(b);
    }
}

/* Every buffer of a choice, so that none is forgotten in one place. */
#define CHOICE_BUFS(X)                                                                             \
    X(content)                                                                                     \
    X(reasoning)                                                                                   \
    X(reasoning_content)                                                                           \
    X(refusal)                                                                                     \
    X(content_parts)                                                                               \
    X(function_name)                                                                               \
    X(function_arguments)                                                                          \
    X(finish_reason)                                                                               \
    X(rows)                                                                                        \
    X(tokens)                                                                                      \
    X(logps)                                                                                       \
    X(ids)                                                                                         \
    X(row_ids)
#define CAPTURE_BUFS(X)                                                                            \
    X(id)                                                                                          \
    X(created) X(model) X(system_fingerprint) X(usage) X(prompt_ids) X(weight_version) X(error)

static void reset_choice(struct capture_choice *choice) {
    for (size_t i = 0; i < choice->n_tools; i++) {
        capture_tool_deinit(&choice->tools[i]);
    }
#define CLEAR_(field) clear(&choice->field);
    CHOICE_BUFS(CLEAR_)
    choice->n_tools = 0;
    choice->n_rows = choice->n_ids = choice->n_row_ids = choice->n_null_logps = 0;
    choice->n_positive_logps = choice->n_zero_logps = choice->n_nonfinite_logps = 0;
    choice->seen = choice->has_content = choice->has_function_call = false;
}

void capture_reset(struct capture *k) {
    for (size_t i = 0; i < k->n_choices; i++) {
        reset_choice(&k->choices[i]);
    }
#define CLEAR_OWN_(field) clear(&k->field);
    CAPTURE_BUFS(CLEAR_OWN_)
    k->n_choices = k->n_finished = k->bytes = 0;
    k->over_limit = k->has_row_ids_from_engine = false;
    k->engine = ENGINE_UNKNOWN;
    k->n_bad_events = 0;
}

void capture_deinit(struct capture *k) {
    capture_reset(k);
    for (size_t i = 0; i < k->cap_choices; i++) {
        struct capture_choice *choice = &k->choices[i];
#define FREE_(field) buf_deinit(&choice->field);
        CHOICE_BUFS(FREE_)
        free(choice->tools);
    }
#define FREE_OWN_(field) buf_deinit(&k->field);
    CAPTURE_BUFS(FREE_OWN_)
    free(k->choices);
    *k = (struct capture){0};
}

const struct buf *capture_ids(const struct capture_choice *choice, size_t *n) {
    bool lists = choice->n_ids > 0;
    *n = lists ? choice->n_ids : choice->n_row_ids;
    return lists ? &choice->ids : &choice->row_ids;
}

static bool usage_field(const struct capture *k, struct sv name, uint64_t *out) {
    struct scan s;
    struct sv key;
    struct sv value;
    bool found = false;
    scan_init(&s, buf_sv(&k->usage));
    if (scan_enter_object(&s) < 0) {
        return false;
    }
    while (scan_next_key(&s, &key) == 1) {
        unsigned long long n;
        bool is_it = text_key_is(&s, key, name);
        if (scan_skip(&s, &value) < 0) {
            break;
        }
        if (is_it && sv_parse_u64(value, INT64_MAX, &n)) {
            *out = n;
            found = true;
        }
    }
    return found;
}

bool capture_usage_tokens(const struct capture *k, uint64_t *out) {
    return usage_field(k, SV("completion_tokens"), out);
}

uint64_t capture_prompt_tokens(const struct capture *k) {
    uint64_t tokens = 0;
    return usage_field(k, SV("prompt_tokens"), &tokens) ? tokens : 0;
}

uint64_t capture_completion_tokens(const struct capture *k) {
    uint64_t tokens = 0;
    if (capture_usage_tokens(k, &tokens)) {
        return tokens;
    }
    for (size_t i = 0; i < k->n_choices; i++) {
        size_t n;
        (void)capture_ids(&k->choices[i], &n);
        tokens += n > 0 ? n : k->choices[i].n_rows;
    }
    return tokens;
}
