/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_put.h"

#include "base/json.h"
#include "tests/doubles/scripted_try.h"

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
    if (bad) {
        TRY(buf_addf(out, ",\"logprob\":%s", bad));
    } else {
        TRY(buf_addf(out, ",\"logprob\":-%lld.%08lld", (long long)(-value / 100000000),
                     (long long)(-value % 100000000)));
    }
    TRY(buf_adds(out, ",\"bytes\":["));
    for (size_t i = 0; i < text.len; i++) {
        TRY(buf_addf(out, "%s%u", i ? "," : "", (unsigned char)text.data[i]));
    }
    return buf_addc(out, ']');
}

/* The sampled token, then the next best ones, each half a unit below. */
static int put_entry(const struct turn *t, unsigned choice, size_t at, struct buf *out) {
    uint32_t id = t->completion.v[at].id;
    int64_t value = token_logprob(at, choice, id);
    const char *bad = at == 0 ? t->scene->bad_logprob : NULL;
    TRY(buf_addc(out, '{'));
    TRY(put_value(t, id, value, bad, out));
    TRY(buf_adds(out, ",\"top_logprobs\":["));
    for (unsigned rank = 0; rank < t->ask->top; rank++) {
        uint32_t other = rank ? token_alternative(at, choice, id, rank) : id;
        TRY(buf_adds(out, rank ? ",{" : "{"));
        TRY(put_value(t, other, value - (int64_t)rank * 50000000, rank ? NULL : bad, out));
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
        TRY(buf_addf(out, "%s%u", i > s.from ? "," : "", v[i].id));
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

int put_text_or_null(const char *text, struct buf *out) {
    return text ? json_quote(sv_from(text), out) : buf_adds(out, "null");
}
