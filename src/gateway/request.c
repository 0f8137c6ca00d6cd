/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/request.h"

#include "gateway/scan.h"
#include "gateway/text.h"

#define REQUEST_N_MAX 128u /* The API's own bound. */

static const struct sv names[REQUEST_NAMES] = {
    [REQUEST_MODEL] = {"model", 5},
    [REQUEST_STREAM] = {"stream", 6},
    [REQUEST_STREAM_OPTIONS] = {"stream_options", 14},
    [REQUEST_LOGPROBS] = {"logprobs", 8},
    [REQUEST_TOP_LOGPROBS] = {"top_logprobs", 12},
    [REQUEST_RETURN_TOKEN_IDS] = {"return_token_ids", 16},
    [REQUEST_RETURN_TOKENS_AS_TOKEN_IDS] = {"return_tokens_as_token_ids", 26},
    [REQUEST_RETURN_INPUT_IDS] = {"return_input_ids_in_sglext", 26},
    [REQUEST_RETURN_OUTPUT_IDS] = {"return_output_ids_in_sglext", 27},
    [REQUEST_N_PROBS] = {"n_probs", 7},
    [REQUEST_CHAT_TEMPLATE_KWARGS] = {"chat_template_kwargs", 20},
    [REQUEST_TOOLS] = {"tools", 5},
    [REQUEST_INCLUDE_REASONING] = {"include_reasoning", 17},
    [REQUEST_TEMPERATURE] = {"temperature", 11},
    [REQUEST_TOP_P] = {"top_p", 5},
    [REQUEST_TOP_K] = {"top_k", 5},
    [REQUEST_MIN_P] = {"min_p", 5},
    [REQUEST_PRESENCE_PENALTY] = {"presence_penalty", 16},
    [REQUEST_FREQUENCY_PENALTY] = {"frequency_penalty", 17},
    [REQUEST_REPETITION_PENALTY] = {"repetition_penalty", 18},
    [REQUEST_SEED] = {"seed", 4},
    [REQUEST_N] = {"n", 1},
    [REQUEST_STOP] = {"stop", 4},
    [REQUEST_LOGIT_BIAS] = {"logit_bias", 10},
    [REQUEST_MIN_TOKENS] = {"min_tokens", 10},
    [REQUEST_MAX_TOKENS] = {"max_tokens", 10},
    [REQUEST_MAX_COMPLETION_TOKENS] = {"max_completion_tokens", 21},
    [REQUEST_REASONING_EFFORT] = {"reasoning_effort", 16},
};

static int take_field(struct scan *s, struct sv key, size_t ordinal, struct request_field *out) {
    struct sv value;
    int kind = scan_skip(s, &value);
    if (kind > 0) {
        const char *quote = key.p - 1;
        *out = (struct request_field){
            .member = {quote, (size_t)(value.p + value.n - quote)},
            .value = value,
            .kind = kind,
            .ordinal = ordinal,
        };
    }
    return kind;
}

/* Looks for one field of a small object that stands within the request. */
static int read_inner(struct sv object, struct sv name, struct request_field *out,
                      struct request_place *place) {
    struct scan s;
    struct sv key;
    struct request_field other;
    scan_init(&s, object);
    int rc = scan_enter_object(&s);
    *place = (struct request_place){.at = s.p, .is_empty = true};
    for (size_t ordinal = 0; rc >= 0 && (rc = scan_next_key(&s, &key)) == 1; ordinal++) {
        rc = take_field(&s, key, ordinal, text_key_is(&s, key, name) ? out : &other);
        *place = (struct request_place){.at = s.p};
    }
    return rc;
}

static struct request_field *find(struct request *r, const struct scan *s, struct sv key,
                                  struct request_field *other) {
    for (size_t i = 0; i < REQUEST_NAMES; i++) {
        if (text_key_is(s, key, names[i])) {
            return &r->fields[i];
        }
    }
    return other;
}

static int read_fields(struct request *r, struct scan *s) {
    struct sv key;
    struct request_field other;
    int rc = scan_enter_object(s);
    r->place = (struct request_place){.at = s->p, .is_empty = true};
    for (size_t ordinal = 0; rc >= 0 && (rc = scan_next_key(s, &key)) == 1; ordinal++) {
        rc = take_field(s, key, ordinal, find(r, s, key, &other));
        r->place = (struct request_place){.at = s->p};
    }
    return rc < 0 ? rc : scan_end(s);
}

int request_parse(struct request *r, struct sv text, struct err *err) {
    struct scan s;
    *r = (struct request){.text = text};
    scan_init(&s, text);
    int rc = read_fields(r, &s);
    const struct request_field *options = &r->fields[REQUEST_STREAM_OPTIONS];
    if (rc >= 0 && options->kind == SCAN_OBJECT) {
        rc = read_inner(options->value, SV("include_usage"), &r->include_usage,
                        &r->stream_options_place);
    }
    const struct request_field *kwargs = &r->fields[REQUEST_CHAT_TEMPLATE_KWARGS];
    if (rc >= 0 && kwargs->kind == SCAN_OBJECT) {
        rc =
            read_inner(kwargs->value, SV("enable_thinking"), &r->enable_thinking, &r->kwargs_place);
    }
    if (rc < 0) {
        return err_set(err, rc, "invalid json body: %s", s.fault ? s.fault : "not an object");
    }
    return 0;
}

bool request_has(const struct request *r, enum request_name name) {
    return r->fields[name].kind != 0 && r->fields[name].kind != SCAN_NULL;
}

bool request_is_stream(const struct request *r) {
    return r->fields[REQUEST_STREAM].kind == SCAN_TRUE;
}

bool request_has_tools(const struct request *r) {
    return r->fields[REQUEST_TOOLS].kind == SCAN_ARRAY && r->fields[REQUEST_TOOLS].value.n > 2;
}

unsigned request_n(const struct request *r) {
    unsigned long long n = 1;
    (void)sv_parse_u64(r->fields[REQUEST_N].value, REQUEST_N_MAX, &n); /* Else it is 1. */
    return n > 0 ? (unsigned)n : 1;
}

struct sv request_name_text(enum request_name name) {
    return names[name];
}

bool request_asks(const struct request *r, enum request_name name) {
    return r->fields[name].kind == SCAN_TRUE;
}

bool request_asks_logprobs(const struct request *r) {
    const struct request_field *f = &r->fields[REQUEST_LOGPROBS];
    /* Some take a number of alternatives there. */
    return f->kind == SCAN_TRUE || (f->kind == SCAN_NUMBER && f->value.p[0] != '0');
}

bool request_asks_token_ids(const struct request *r) {
    return r->fields[REQUEST_RETURN_TOKEN_IDS].kind == SCAN_TRUE;
}

bool request_asks_usage(const struct request *r) {
    return r->include_usage.kind == SCAN_TRUE;
}

bool request_is_sampling(struct sv name) {
    size_t i = REQUEST_TEMPERATURE;
    while (i < REQUEST_NAMES && !sv_eq(name, names[i])) {
        i++;
    }
    return i < REQUEST_NAMES;
}

int request_put_sampling(const struct request *r, struct buf *out) {
    int rc = buf_addc(out, '{');
    bool first = true;
    for (size_t i = REQUEST_TEMPERATURE; rc == 0 && i < REQUEST_NAMES; i++) {
        if (!r->fields[i].kind) {
            continue;
        }
        rc = buf_addf(out, "%s\"%.*s\":", first ? "" : ",", SV_ARG(names[i]));
        rc = rc < 0 ? rc : text_copy_finite(r->fields[i].value, out);
        first = false;
    }
    return rc < 0 ? rc : buf_addc(out, '}');
}
