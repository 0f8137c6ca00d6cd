/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/rewrite.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "gateway/scan.h"
#include "gateway/text.h"

/* The values of one request's edits: two numbers, fixed words, and beside this a model's name,
 * twice, each byte six long when escaped. Reserved at once so that spans of it stay where they are.
 */
#define REWRITE_VALUES_MAX 4096u

struct work {
    struct rewrite *w;
    const struct request *r;
    const struct rewrite_options *o;
    enum ask what; /* That the edits are for which are made now. */
};

static int note(struct work *k, const char *field, const char *action, struct sv from,
                struct sv to) {
    struct rewrite *w = k->w;
    BUG_IF(w->n_edits == REWRITE_EDITS_MAX);
    w->edits[w->n_edits++] = (struct rewrite_edit){field, action, k->what, from, to};
    return 0;
}

/* Puts text among the values and gives its span. */
static int keep(struct rewrite *w, struct sv a, struct sv b, struct sv c, struct sv *out) {
    size_t at = w->values.len;
    *out = (struct sv){0};
    int rc = buf_add_sv(&w->values, a);
    rc = rc < 0 ? rc : buf_add_sv(&w->values, b);
    rc = rc < 0 ? rc : buf_add_sv(&w->values, c);
    if (rc == 0) {
        *out = (struct sv){w->values.data + at, w->values.len - at};
    }
    return rc;
}

/* Adds a member at the end of an object. */
static int insert(struct rewrite *w, struct request_place *place, struct sv name, struct sv value) {
    struct sv member = {0};
    struct sv quoted = {0};
    int rc = keep(w, place->is_empty ? SV("\"") : SV(",\""), name, SV("\":"), &member);
    rc = rc < 0 ? rc : keep(w, value, (struct sv){0}, (struct sv){0}, &quoted);
    if (rc < 0) {
        return rc;
    }
    place->is_empty = false;
    member.n += quoted.n;
    return splice_add(&w->splice, place->at, 0, member);
}

/* Sets a field of an object: replaces its value when the key is there, else adds it. */
static int set(struct rewrite *w, const struct request_field *f, struct request_place *place,
               struct sv name, struct sv value) {
    return f->kind ? splice_replace(&w->splice, f->value, value) : insert(w, place, name, value);
}

static int set_top(struct work *k, struct request_place *place, enum request_name which,
                   struct sv name, struct sv value) {
    const struct request_field *f = &k->r->fields[which];
    int rc = set(k->w, f, place, name, value);
    return rc < 0 ? rc
                  : note(k, name.p, f->kind ? "changed" : "set",
                         f->kind ? f->value : (struct sv){0}, value);
}

static int add_number(struct rewrite *w, long long number, struct sv *out) {
    size_t at = w->values.len;
    *out = (struct sv){0};
    int rc = buf_addf(&w->values, "%lld", number);
    if (rc == 0) {
        *out = (struct sv){w->values.data + at, w->values.len - at};
    }
    return rc;
}

static int set_number(struct work *k, struct request_place *place, enum request_name which,
                      int number) {
    struct sv value;
    int rc = add_number(k->w, number, &value);
    return rc < 0 ? rc : set_top(k, place, which, request_name_text(which), value);
}

/* Whether the agent's own request says it already. Null counts as absent, and a `false` of the
 * agent's does not switch the capture off. */
static bool agent_asks(const struct work *k, const struct profile_field *f) {
    switch (f->what) {
    case ASK_LOGPROBS:
    case ASK_COUNT:
        return request_asks_logprobs(k->r);
    case ASK_ALTERNATIVES:
    case ASK_PROBABILITIES:
        return request_has(k->r, f->field);
    default:
        return request_asks(k->r, f->field);
    }
}

/* What would change an answer that the agent itself reads. */
static bool would_show(const struct work *k, const struct profile_field *f) {
    bool own_rows = request_asks_logprobs(k->r);
    return (f->what == ASK_ID_STRINGS && own_rows) ||
           (f->what == ASK_ALTERNATIVES && own_rows && k->o->profile->gives_alternatives);
}

static int ask_for(struct work *k, struct request_place *place, const struct profile_field *f) {
    int most = k->o->profile->alternatives_max;
    int number = most && k->o->top_logprobs > most ? most : k->o->top_logprobs;
    k->w->wanted |= f->what;
    if (agent_asks(k, f)) {
        return 0;
    }
    k->what = f->what;
    k->w->ours |= f->what;
    switch (f->what) {
    case ASK_ALTERNATIVES:
        return set_number(k, place, f->field, number);
    case ASK_PROBABILITIES:
    case ASK_COUNT: /* Zero would ask for none. */
        return set_number(k, place, f->field, number > 0 ? number : 1);
    default:
        return set_top(k, place, f->field, request_name_text(f->field), SV("true"));
    }
}

static int edit_capture(struct work *k, struct request_place *place) {
    const struct rewrite_options *o = k->o;
    const struct profile_rung *rung = profile_rung(o->profile, o->level, request_is_stream(k->r),
                                                   request_has_tools(k->r), o->withdrawn);
    int rc = 0;
    k->w->rung = rung;
    for (size_t i = 0; rc == 0 && i < PROFILE_FIELDS_MAX && rung->fields[i].what; i++) {
        const struct profile_field *f = &rung->fields[i];
        if (!(f->what & o->withdrawn) && !would_show(k, f)) {
            rc = ask_for(k, place, f);
        }
    }
    k->what = 0;
    return rc;
}

static int edit_usage(struct work *k, struct request_place *place) {
    const struct request_field *options = &k->r->fields[REQUEST_STREAM_OPTIONS];
    if (k->w->rung->level == LEVEL_TEXT || (k->o->withdrawn & ASK_USAGE) ||
        !request_is_stream(k->r) || request_asks_usage(k->r)) {
        return 0;
    }
    if (options->kind && options->kind != SCAN_NULL && options->kind != SCAN_OBJECT) {
        return 0; /* The engine will say what is wrong with it. */
    }
    k->w->ours |= ASK_USAGE;
    k->what = ASK_USAGE;
    if (options->kind != SCAN_OBJECT) {
        return set_top(k, place, REQUEST_STREAM_OPTIONS, SV("stream_options"),
                       SV("{\"include_usage\":true}"));
    }
    struct request_place inner = k->r->stream_options_place;
    const struct request_field *f = &k->r->include_usage;
    int rc = set(k->w, f, &inner, SV("include_usage"), SV("true"));
    return rc < 0 ? rc
                  : note(k, "stream_options.include_usage", f->kind ? "changed" : "set",
                         f->kind ? f->value : (struct sv){0}, SV("true"));
}

/* The value is this number, however it is spelled. */
static bool is_number(const struct request_field *f, double want) {
    char text[32];
    if (f->kind != SCAN_NUMBER || f->value.n >= sizeof text) {
        return false;
    }
    memcpy(text, f->value.p, f->value.n);
    text[f->value.n] = '\0';
    return strtod(text, NULL) == want;
}

/* Truncation and penalties as if there were none, so that log-probabilities from before them are
 * those that were sampled from at temperature 1. Said outright: a model's own settings may hold
 * others. The temperature is the agent's. */
static int edit_sampling(struct work *k, struct request_place *place) {
    static const struct {
        enum request_name which;
        struct sv name, value;
        double number;
    } fields[] = {
        {REQUEST_TOP_P, {"top_p", 5}, {"1", 1}, 1},
        {REQUEST_TOP_K, {"top_k", 5}, {"-1", 2}, -1},
        {REQUEST_MIN_P, {"min_p", 5}, {"0", 1}, 0},
        {REQUEST_PRESENCE_PENALTY, {"presence_penalty", 16}, {"0", 1}, 0},
        {REQUEST_FREQUENCY_PENALTY, {"frequency_penalty", 17}, {"0", 1}, 0},
        {REQUEST_REPETITION_PENALTY, {"repetition_penalty", 18}, {"1", 1}, 1},
    };
    int rc = 0;
    if (!k->o->neutral_sampling || k->w->rung->level < LEVEL_TOKENS ||
        (k->o->withdrawn & ASK_NEUTRAL)) {
        return 0;
    }
    k->what = ASK_NEUTRAL;
    for (size_t i = 0; rc == 0 && i < sizeof fields / sizeof *fields; i++) {
        if (!is_number(&k->r->fields[fields[i].which], fields[i].number)) {
            k->w->ours |= ASK_NEUTRAL;
            rc = set_top(k, place, fields[i].which, fields[i].name, fields[i].value);
        }
    }
    return rc;
}

static int edit_thinking(struct work *k, struct request_place *place) {
    const struct request_field *kwargs = &k->r->fields[REQUEST_CHAT_TEMPLATE_KWARGS];
    if (!k->o->disable_thinking) {
        return 0;
    }
    if (!kwargs->kind || kwargs->kind == SCAN_NULL) {
        return set_top(k, place, REQUEST_CHAT_TEMPLATE_KWARGS, SV("chat_template_kwargs"),
                       SV("{\"enable_thinking\":false}"));
    }
    if (kwargs->kind != SCAN_OBJECT || k->r->enable_thinking.kind) {
        return 0;
    }
    struct request_place inner = k->r->kwargs_place;
    int rc = insert(k->w, &inner, SV("enable_thinking"), SV("false"));
    return rc < 0 ? rc
                  : note(k, "chat_template_kwargs.enable_thinking", "set", (struct sv){0},
                         SV("false"));
}

static int edit_model(struct work *k, struct request_place *place) {
    k->w->model = k->r->fields[REQUEST_MODEL].value;
    if (!k->o->model_override) {
        return 0;
    }
    size_t at = k->w->values.len;
    int rc = json_quote(sv_from(k->o->model_override), &k->w->values);
    if (rc < 0) {
        return rc;
    }
    struct sv quoted = {k->w->values.data + at, k->w->values.len - at};
    if (sv_eq(quoted, k->w->model)) {
        return 0;
    }
    k->w->model = quoted;
    return set_top(k, place, REQUEST_MODEL, SV("model"), quoted);
}

/* The value's clamped form, or the value itself. */
static int clamp(struct work *k, const struct request_field *f, struct sv *out, bool *clamped) {
    unsigned long long number = 0;
    *out = f->value;
    *clamped = false;
    bool whole = f->kind == SCAN_NUMBER && f->value.p[0] != '-';
    for (size_t i = 0; whole && i < f->value.n; i++) {
        whole = f->value.p[i] >= '0' && f->value.p[i] <= '9';
    }
    long long cap = k->o->max_tokens_cap;
    if (!whole || cap <= 0 || sv_parse_u64(f->value, (unsigned long long)cap, &number)) {
        return 0;
    }
    *clamped = true;
    return add_number(k->w, cap, out);
}

/* gpt-5 and the o-series refuse max_tokens, and most agents send it: the reference's rule. */
static bool wants_completion_tokens(struct sv model_value) {
    static const char *const families[] = {"gpt-5", "o1", "o3", "o4"};
    struct sv model = text_inner(model_value);
    size_t slash = sv_find(model, SV("/"));
    model = slash == (size_t)-1 ? model : sv_cut(model, slash + 1);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t n = sv_from(families[i]).n;
        if (model.n >= n && strncasecmp(model.p, families[i], n) == 0) {
            return true;
        }
    }
    return false;
}

static int edit_completion_tokens(struct work *k) {
    const struct request_field *f = &k->r->fields[REQUEST_MAX_COMPLETION_TOKENS];
    struct sv value;
    bool clamped = false;
    int rc = f->kind ? clamp(k, f, &value, &clamped) : 0;
    if (rc == 0 && clamped) {
        (void)note(k, "max_completion_tokens", "changed", f->value, value);
        rc = splice_replace(&k->w->splice, f->value, value);
    }
    return rc;
}

/* Under the name that the model takes; what stands there under that name already wins. */
static int edit_max_tokens(struct work *k) {
    const struct request_field *f = &k->r->fields[REQUEST_MAX_TOKENS];
    bool moves = wants_completion_tokens(k->w->model);
    struct sv value;
    bool clamped = false;
    if (!f->kind) {
        return 0;
    }
    if (moves && k->r->fields[REQUEST_MAX_COMPLETION_TOKENS].kind) {
        (void)note(k, "max_tokens", "dropped", f->value, (struct sv){0});
        return splice_remove_member(&k->w->splice, k->r->text, f->member, f->ordinal > 0);
    }
    int rc = clamp(k, f, &value, &clamped);
    if (rc == 0 && moves) {
        struct sv key = {f->member.p, (size_t)(f->value.p - f->member.p)};
        (void)note(k, "max_tokens", "dropped", f->value, (struct sv){0});
        (void)note(k, "max_completion_tokens", "set", (struct sv){0}, value);
        rc = splice_replace(&k->w->splice, key, SV("\"max_completion_tokens\":"));
    } else if (rc == 0 && clamped) {
        (void)note(k, "max_tokens", "changed", f->value, value);
    }
    return rc < 0 || !clamped ? rc : splice_replace(&k->w->splice, f->value, value);
}

static int edit_all(struct work *k) {
    struct request_place place = k->r->place;
    int rc = edit_capture(k, &place);
    rc = rc < 0 ? rc : edit_usage(k, &place);
    k->what = 0;
    rc = rc < 0 ? rc : edit_sampling(k, &place);
    k->what = 0;
    rc = rc < 0 ? rc : edit_model(k, &place);
    rc = rc < 0 ? rc : edit_completion_tokens(k);
    rc = rc < 0 ? rc : edit_max_tokens(k);
    return rc < 0 ? rc : edit_thinking(k, &place);
}

int rewrite_request(struct rewrite *w, const struct request *r, const struct rewrite_options *o,
                    struct err *err) {
    struct work k = {.w = w, .r = r, .o = o};
    splice_reset(&w->splice);
    buf_reset(&w->text);
    buf_reset(&w->values);
    w->n_edits = 0;
    w->ours = w->wanted = 0;
    size_t model_n = o->model_override ? sv_from(o->model_override).n : 0;
    int rc = buf_reserve(&w->values, REWRITE_VALUES_MAX + 12 * model_n);
    rc = rc < 0 ? rc : edit_all(&k);
    if (rc == 0 && w->n_edits > 0) {
        rc = splice_apply(&w->splice, r->text, &w->text);
    }
    return rc < 0 ? err_set(err, rc, "cannot rewrite the request: %s", err_name(rc)) : 0;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The name stands there, and not as a part of another: "logprobs" is not "top_logprobs". */
static bool names(struct sv text, struct sv name) {
    size_t at;
    while ((at = sv_find(text, name)) != (size_t)-1) {
        size_t end = at + name.n;
        if ((at == 0 || !is_word(text.p[at - 1])) && (end == text.n || !is_word(text.p[end]))) {
            return true;
        }
        text = sv_cut(text, end);
    }
    return false;
}

unsigned rewrite_named(const struct rewrite *w, struct sv refusal) {
    unsigned all = 0;
    for (size_t i = 0; i < w->n_edits; i++) {
        const struct rewrite_edit *e = &w->edits[i];
        struct sv field = sv_from(e->field);
        if (e->what == ASK_USAGE) { /* Told by either of its two names. */
            bool found =
                names(refusal, SV("stream_options")) || names(refusal, SV("include_usage"));
            all |= found ? ASK_USAGE : 0u;
        } else if (e->what && names(refusal, field)) {
            all |= e->what;
        }
    }
    return all;
}

void rewrite_deinit(struct rewrite *w) {
    splice_deinit(&w->splice);
    buf_deinit(&w->text);
    buf_deinit(&w->values);
    *w = (struct rewrite){0};
}

static int put_value(struct buf *out, const char *name, struct sv value) {
    if (value.n == 0) {
        return 0;
    }
    int rc = buf_addf(out, ",\"%s\":", name);
    return rc < 0 ? rc : text_copy_finite(value, out);
}

int rewrite_put_edits(const struct rewrite *w, struct buf *out) {
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < w->n_edits; i++) {
        const struct rewrite_edit *e = &w->edits[i];
        rc = buf_addf(out, "%s{\"field\":\"%s\",\"action\":\"%s\"", i ? "," : "", e->field,
                      e->action);
        rc = rc < 0 ? rc : put_value(out, "from", e->from);
        rc = rc < 0 ? rc : put_value(out, "to", e->to);
        rc = rc < 0 ? rc : buf_addc(out, '}');
    }
    return rc;
}

int rewrite_put_splices(const struct rewrite *w, struct sv text, struct buf *out) {
    int rc = buf_addc(out, '[');
    for (size_t i = 0; rc == 0 && i < w->splice.n; i++) {
        const struct splice_edit *e = &w->splice.edits[i];
        rc = buf_addf(out, "%s[%zu,%zu,", i ? "," : "", (size_t)(e->at - text.p), e->cut);
        rc = rc < 0 ? rc : json_quote(e->put, out);
        rc = rc < 0 ? rc : buf_addc(out, ']');
    }
    return rc < 0 ? rc : buf_addc(out, ']');
}
