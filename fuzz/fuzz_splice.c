/* SPDX-License-Identifier: BSD-3-Clause */
/* Any answer and any request: each edit stands where a field is that the documentation
 * (docs/internals/gateway.md) lists, and puts there what it says; all other bytes stay. What was
 * JSON before is JSON after. */
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "gateway/chunk.h"
#include "gateway/restore.h"
#include "gateway/rewrite.h"
#include "gateway/scan.h"
#include "gateway/text.h"

/* What may become of a field. */
enum may { MAY_GO = 1, MAY_BE_NULL = 2, MAY_BE_EMPTY = 4, MAY_CHANGE = 8, MAY_BE_RENAMED = 16 };

struct field {
    struct sv member, value;
    unsigned may;
};

struct fields {
    struct field list[256];
    size_t n;
    bool too_many;
    const char *ends[256]; /* Of objects that may get more members: behind the last. */
    size_t n_ends;
};

struct rule {
    const char *name;
    unsigned may;
    const struct rule *within; /* Of an object's, or of the objects' in a list's. */
    bool grows;                /* It may get more members. */
};

/* --- what is documented --- */

static const struct rule rows[] = {{"top_logprobs", MAY_BE_EMPTY, NULL, false}, {0}};
static const struct rule logprobs[] = {{"content", 0, rows, false}, {0}};
static const struct rule message[] = {{"token_id", MAY_GO, NULL, false}, {0}};
static const struct rule choice[] = {
    {"logprobs", MAY_GO | MAY_BE_NULL, logprobs, false},
    {"token_ids", MAY_GO | MAY_BE_NULL, NULL, false},
    {"prompt_token_ids", MAY_GO, NULL, false},
    {"response_token_ids", MAY_GO, NULL, false},
    {"top_logprobs", MAY_GO, NULL, false},
    {"delta", 0, message, false},
    {"message", 0, message, false},
    {0},
};
static const struct rule sglext[] = {
    {"input_ids", MAY_GO, NULL, false}, {"output_ids", MAY_GO, NULL, false}, {0}};
static const struct rule answer[] = {
    {"choices", 0, choice, false},
    {"usage", MAY_GO, NULL, false},
    {"prompt_token_ids", MAY_GO | MAY_BE_NULL, NULL, false},
    {"sglext", MAY_GO, sglext, false},
    {0},
};

static const struct rule stream_options[] = {{"include_usage", MAY_CHANGE, NULL, false}, {0}};
static const struct rule nothing[] = {{0}};
static const struct rule request[] = {
    {"logprobs", MAY_CHANGE, NULL, false},
    {"top_logprobs", MAY_CHANGE, NULL, false},
    {"return_token_ids", MAY_CHANGE, NULL, false},
    {"return_tokens_as_token_ids", MAY_CHANGE, NULL, false},
    {"return_input_ids_in_sglext", MAY_CHANGE, NULL, false},
    {"return_output_ids_in_sglext", MAY_CHANGE, NULL, false},
    {"n_probs", MAY_CHANGE, NULL, false},
    {"stream_options", MAY_CHANGE, stream_options, true},
    {"chat_template_kwargs", MAY_CHANGE, nothing, true},
    {"model", MAY_CHANGE, NULL, false},
    {"max_tokens", MAY_CHANGE | MAY_GO | MAY_BE_RENAMED, NULL, false},
    {"max_completion_tokens", MAY_CHANGE, NULL, false},
    {"top_p", MAY_CHANGE, NULL, false},
    {"top_k", MAY_CHANGE, NULL, false},
    {"min_p", MAY_CHANGE, NULL, false},
    {"presence_penalty", MAY_CHANGE, NULL, false},
    {"frequency_penalty", MAY_CHANGE, NULL, false},
    {"repetition_penalty", MAY_CHANGE, NULL, false},
    {0},
};

/* --- where it stands in a text --- */

static void walk(struct scan *s, const struct rule *rules, bool grows, struct fields *out);

static void walk_list(struct scan *s, const struct rule *rules, struct fields *out) {
    struct sv other;
    BUG_IF(scan_enter_array(s) < 0);
    while (scan_next_item(s) == 1) {
        if (scan_peek(s) == SCAN_OBJECT) {
            walk(s, rules, false, out);
        } else {
            BUG_IF(scan_skip(s, &other) < 0);
        }
    }
}

static void walk_member(struct scan *s, struct sv key, const struct rule *rule,
                        struct fields *out) {
    int kind = scan_peek(s);
    const char *from = s->p;
    struct sv value;
    if (rule->within && kind == SCAN_OBJECT) {
        walk(s, rule->within, rule->grows, out);
        value = (struct sv){from, (size_t)(s->p - from)};
    } else if (rule->within && kind == SCAN_ARRAY) {
        walk_list(s, rule->within, out);
        value = (struct sv){from, (size_t)(s->p - from)};
    } else {
        BUG_IF(scan_skip(s, &value) < 0);
    }
    if (out->n == sizeof out->list / sizeof *out->list) {
        out->too_many = true;
        return;
    }
    const char *quote = key.p - 1;
    out->list[out->n++] =
        (struct field){{quote, (size_t)(value.p + value.n - quote)}, value, rule->may};
}

/* The text is known to be good. */
static void walk(struct scan *s, const struct rule *rules, bool grows, struct fields *out) {
    struct sv key;
    struct sv value;
    BUG_IF(scan_enter_object(s) < 0);
    const char *end = s->p;
    while (scan_next_key(s, &key) == 1) {
        const struct rule *rule = rules;
        while (rule->name && !text_key_is(s, key, sv_from(rule->name))) {
            rule++;
        }
        if (rule->name) {
            walk_member(s, key, rule, out);
            end = s->p;
        } else {
            BUG_IF(scan_skip(s, &value) < 0);
            end = value.p + value.n;
        }
    }
    if (grows && out->n_ends < sizeof out->ends / sizeof *out->ends) {
        out->ends[out->n_ends++] = end;
    } else {
        out->too_many |= grows;
    }
}

/* --- whether an edit is one of them --- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Blanks and at most one comma. */
static bool is_between(const char *from, const char *to, unsigned *commas) {
    for (; from < to; from++) {
        *commas += *from == ',';
        if (*from != ',' && !is_blank(*from)) {
            return false;
        }
    }
    return true;
}

static bool goes_alone(const struct splice_edit *e, struct sv member) {
    const char *end = e->at + e->cut;
    unsigned commas = 0;
    return e->at <= member.p && member.p + member.n <= end &&
           is_between(e->at, member.p, &commas) && is_between(member.p + member.n, end, &commas) &&
           commas <= 1;
}

static bool replaces(const struct splice_edit *e, struct sv span) {
    return e->at == span.p && e->cut == span.n;
}

static bool is_allowed(const struct splice_edit *e, const struct field *f) {
    struct sv key = {f->member.p, (size_t)(f->value.p - f->member.p)};
    return (f->may & MAY_GO && e->put.n == 0 && goes_alone(e, f->member)) ||
           (f->may & MAY_BE_NULL && sv_eq(e->put, SV("null")) && replaces(e, f->value)) ||
           (f->may & MAY_BE_EMPTY && sv_eq(e->put, SV("[]")) && replaces(e, f->value)) ||
           (f->may & MAY_CHANGE && e->put.n > 0 && replaces(e, f->value)) ||
           (f->may & MAY_BE_RENAMED && sv_eq(e->put, SV("\"max_completion_tokens\":")) &&
            replaces(e, key));
}

/* A member behind the last of an object that may get more. */
static bool is_new(const struct splice_edit *e, const struct fields *f) {
    bool quotes = sv_starts_with(e->put, SV(",\"")) || sv_starts_with(e->put, SV("\""));
    for (size_t i = 0; i < f->n_ends && e->cut == 0 && quotes; i++) {
        if (f->ends[i] == e->at) {
            return true;
        }
    }
    return false;
}

static void check_edits(const struct splice *edits, struct sv text, const struct rule *rules,
                        bool grows) {
    struct fields f = {.n = 0};
    struct scan s;
    scan_init(&s, text);
    walk(&s, rules, grows, &f);
    for (size_t i = 0; i < edits->n && !f.too_many; i++) {
        const struct splice_edit *e = &edits->edits[i];
        bool found = is_new(e, &f);
        for (size_t k = 0; k < f.n && !found; k++) {
            found = is_allowed(e, &f.list[k]);
        }
        BUG_IF(!found);
    }
}

/* --- what comes out --- */

static bool is_json(struct sv text) {
    json_error_t at;
    json_t *value = json_loadb(text.p, text.n, JSON_ALLOW_NUL, &at);
    json_decref(value);
    return value != NULL;
}

/* By another hand than splice_apply's. */
static void check_text(const struct splice *edits, struct sv text, struct sv got) {
    struct sv value;
    AUTO_BUF struct buf want = {0};
    size_t at = 0;
    for (size_t i = 0; i <= edits->n; i++) {
        size_t to = i < edits->n ? (size_t)(edits->edits[i].at - text.p) : text.n;
        BUG_IF(to < at || to > text.n || buf_add(&want, text.p + at, to - at) < 0);
        if (i < edits->n) {
            BUG_IF(buf_add_sv(&want, edits->edits[i].put) < 0);
            at = to + edits->edits[i].cut;
        }
    }
    BUG_IF(!sv_eq(buf_sv(&want), got));
    BUG_IF(scan_whole(got, &value) != SCAN_OBJECT);
    BUG_IF(is_json(text) && !is_json(got));
}

static void check_answer(const struct restore_plan *plan, struct sv in) {
    struct chunk c = {0};
    struct splice work = {0};
    AUTO_BUF struct buf out = {0};
    if (chunk_parse(&c, in) == 0) {
        BUG_IF(restore_chunk(plan, &c, in, &work, &out) < 0);
        check_edits(&work, in, answer, false);
        check_text(&work, in, buf_sv(&out));
    }
    splice_deinit(&work);
    chunk_deinit(&c);
}

static void check_request(const struct request *r, const struct rewrite_options *o) {
    struct rewrite w = {0};
    BUG_IF(rewrite_request(&w, r, o, NULL) < 0);
    if (w.n_edits > 0) {
        check_edits(&w.splice, r->text, request, true);
        check_text(&w.splice, r->text, buf_sv(&w.text));
    }
    rewrite_deinit(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct sv in = {(const char *)data, size};
    struct request r;
    for (unsigned e = 0; e < ENGINES; e++) {
        const struct profile *p = profile_of((enum engine)e);
        check_answer(&(struct restore_plan){p, ASK_EVERYTHING}, in);
        check_answer(&(struct restore_plan){p, ASK_ALTERNATIVES | ASK_IDS}, in);
        check_answer(&(struct restore_plan){p, ASK_ANY_LOGPROBS}, in);
    }
    if (request_parse(&r, in, NULL) < 0) {
        return 0;
    }
    for (unsigned e = 0; e < ENGINES; e++) {
        const struct profile *p = profile_of((enum engine)e);
        check_request(&r, &(struct rewrite_options){.profile = p, .level = LEVEL_TOKENS});
        check_request(&r, &(struct rewrite_options){p, LEVEL_LOGPROBS, 0, 5, 7, true, false, NULL});
        check_request(
            &r, &(struct rewrite_options){p, LEVEL_TOKENS, ASK_IDS, 3, 9, true, true, "gpt-5\"x"});
    }
    return 0;
}
