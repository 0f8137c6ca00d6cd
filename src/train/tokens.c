/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tokens.h"

#include "base/json.h"

static json_t *parse(struct sv text) {
    return text.n > 0 ? json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

/* How many ids the array has; *bad when one of them is none. */
static size_t count_ids(struct sv text, bool *bad) {
    AUTO_JSON json_t *array = parse(text);
    size_t i;
    json_t *id;
    *bad = *bad || (text.n > 0 && !array); /* Valid JSON, as all that is recorded: a number that
                                              no integer holds. */
    json_array_foreach(array, i, id) {
        *bad = *bad || !json_is_integer(id) || json_integer_value(id) < 0;
    }
    return json_array_size(array);
}

static void count_logps(struct sv text, struct tokens *out) {
    AUTO_JSON json_t *array = parse(text);
    size_t i;
    json_t *logp;
    out->nonfinite_logp = text.n > 0 && !array;
    json_array_foreach(array, i, logp) {
        double value = json_number_value(logp);
        out->null_logp = out->null_logp || !json_is_number(logp);
        out->positive_logp = out->positive_logp || value > 0;
        out->floored_logp = out->floored_logp || value <= TOKENS_LOGP_FLOOR;
        out->zeros += json_is_number(logp) && value == 0;
    }
    out->logps = json_array_size(array);
}

static long long said(const json_t *usage, const char *field) {
    const json_t *number = json_object_get(usage, field);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

void tokens_of(const struct trace_call *call, struct tokens *out) {
    *out = (struct tokens){0};
    out->prompt_ids = count_ids(call->prompt_token_ids, &out->bad_ids);
    out->ids = count_ids(call->completion_token_ids, &out->bad_ids);
    count_logps(call->per_token_logps, out);
    AUTO_JSON json_t *usage = parse(call->usage);
    out->usage_ids = said(usage, "completion_tokens");
    out->usage_prompt = said(usage, "prompt_tokens");
}
