/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_put.h"

#include "base/err.h"
#include "base/json.h"

/* Answers are mostly numbers; printf's way of writing them took most of the time. */
static int put_number(uint64_t value, struct buf *out) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return buf_add(out, digits + at, sizeof digits - at);
}

/* In units of 1e-8, as -N.NNNNNNNN. */
static int put_fraction(int64_t value, struct buf *out) {
    char text[] = "-0.00000000";
    uint64_t left = (uint64_t)-value;
    for (size_t i = sizeof text - 2; i > 2; i--) {
        text[i] = (char)('0' + left % 10);
        left /= 10;
    }
    TRY(buf_addc(out, '-'));
    TRY(put_number(left, out));
    return buf_add(out, text + 2, sizeof text - 3);
}

static int put_token_name(const struct turn *t, uint32_t id, struct sv text, struct buf *out) {
    return t->ask->tokens_as_ids ? buf_addf(out, "\"token_id:%u\"", id) : json_quote(text, out);
}

/* `"token":...,"logprob":...,"bytes":[...]`; `value` in units of 1e-8. */
static int put_value(const struct turn *t, uint32_t id, int64_t value, const char *bad,
                     struct buf *out) {
    AUTO_BUF struct buf text = {0};
    TRY(token_text(id, &text));
    TRY(buf_adds(out, "\"token\":"));
    TRY(put_token_name(t, id, buf_sv(&text), out));
    TRY(buf_adds(out, ",\"logprob\":"));
    TRY(bad ? buf_adds(out, bad) : put_fraction(value, out));
    TRY(buf_adds(out, ",\"bytes\":["));
    for (size_t i = 0; i < text.len; i++) {
        TRY(i ? buf_addc(out, ',') : 0);
        TRY(put_number((unsigned char)text.data[i], out));
    }
    return buf_addc(out, ']');
}

/* The sampled token, then the next best ones, each half a unit below. */
static int put_entry(const struct turn *t, unsigned choice, size_t at, struct buf *out) {
    uint32_t id = t->completion.v[at].id;
    int64_t value = token_logprob(at, choice, id);
    /* As if divided by it: the nearer, the hotter. */
    int64_t step = 50000000;
    if (t->script->processed && t->ask->temperature > 0) {
        step = (int64_t)((double)step / t->ask->temperature);
    }
    const char *bad = at == 0 ? t->scene->bad_logprob : NULL;
    TRY(buf_addc(out, '{'));
    TRY(put_value(t, id, value, bad, out));
    TRY(buf_adds(out, ",\"top_logprobs\":["));
    for (unsigned rank = 0; rank < t->ask->top; rank++) {
        uint32_t other = rank ? token_alternative(at, choice, id, rank) : id;
        TRY(buf_adds(out, rank ? ",{" : "{"));
        TRY(put_value(t, other, value - (int64_t)rank * step, rank ? NULL : bad, out));
        TRY(buf_addc(out, '}'));
    }
    return buf_adds(out, "]}");
}

int put_logprobs(const struct turn *t, unsigned choice, struct span s, struct buf *out) {
    if (!t->ask->logprobs) {
        return buf_adds(out, "null");
    }
    TRY(buf_adds(out, "{\"content\":["));
    for (size_t i = s.from; i < s.to; i++) {
        TRY(i > s.from ? buf_addc(out, ',') : 0);
        TRY(put_entry(t, choice, i, out));
    }
    return buf_adds(out, "]}");
}

static int put_ids(const struct turn *t, const char *key, const struct token *v, struct span s,
                   bool missing, struct buf *out) {
    if (!t->ask->token_ids || missing) {
        return t->script->unasked_is_null ? buf_addf(out, ",\"%s\":null", key) : 0;
    }
    TRY(buf_addf(out, ",\"%s\":[", key));
    for (size_t i = s.from; i < s.to; i++) {
        TRY(i > s.from ? buf_addc(out, ',') : 0);
        TRY(put_number(v[i].id, out));
    }
    return buf_addc(out, ']');
}

int put_token_ids(const struct turn *t, struct span s, bool missing, struct buf *out) {
    return put_ids(t, "token_ids", t->completion.v, s, missing, out);
}

int put_prompt_ids(const struct turn *t, bool missing, struct buf *out) {
    return put_ids(t, "prompt_token_ids", t->ask->prompt.v, (struct span){0, t->ask->prompt.n},
                   missing, out);
}

int put_usage(const struct turn *t, size_t tokens, struct buf *out) {
    size_t completion = tokens * (size_t)t->ask->n;
    AUTO_JSON json_t *usage = json_pack(
        "{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)t->ask->prompt.n, "total_tokens",
        (json_int_t)(t->ask->prompt.n + completion), "completion_tokens", (json_int_t)completion);
    if (!usage ||
        (t->scene->usage_edits && json_object_update(usage, (json_t *)t->scene->usage_edits) < 0)) {
        return ERR_NOMEM;
    }
    return json_compact(usage, out);
}

int put_call_id(const struct turn *t, unsigned choice, unsigned call, struct buf *out) {
    return buf_addf(out, "\"chatcmpl-tool-%012llx%02x%02x\"", t->number, choice, call);
}

int put_newer(const struct turn *t, const char *members, struct buf *out) {
    return t->script->unasked_is_null ? buf_adds(out, members) : 0;
}

int put_text_or_null(const char *text, struct buf *out) {
    return text ? json_quote(sv_from(text), out) : buf_adds(out, "null");
}
