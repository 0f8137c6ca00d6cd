/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tokens.h"

#include <string.h>

#include "base/json.h"

static json_t *parse(struct sv text) {
    return text.n > 0 ? json_loadb(text.p, text.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
}

/* How many ids the array has; *bad when one of them is none. */
static size_t count_ids(struct sv text, bool *bad) {
    AUTO_JSON json_t *array = parse(text);
    size_t i;
    json_t *id;
    json_array_foreach(array, i, id) {
        *bad = *bad || !json_is_integer(id) || json_integer_value(id) < 0;
    }
    return json_array_size(array);
}

static void count_logps(struct sv text, struct tokens *out) {
    AUTO_JSON json_t *array = parse(text);
    size_t i;
    json_t *logp;
    json_array_foreach(array, i, logp) {
        out->null_logp = out->null_logp || !json_is_number(logp);
        out->positive_logp = out->positive_logp || json_number_value(logp) > 0;
    }
    out->logps = json_array_size(array);
}

void tokens_of(const struct trace_call *call, struct tokens *out) {
    *out = (struct tokens){.usage_ids = -1};
    out->prompt_ids = count_ids(call->prompt_token_ids, &out->bad_ids);
    out->ids = count_ids(call->completion_token_ids, &out->bad_ids);
    count_logps(call->per_token_logps, out);
    AUTO_JSON json_t *usage = parse(call->usage);
    const json_t *said = json_object_get(usage, "completion_tokens");
    if (json_is_integer(said)) {
        out->usage_ids = json_integer_value(said);
    }
}

bool sampling_is_neutral(const json_t *sent) {
    /* By vLLM's, SGLang's and llama.cpp's names. Temperature must be said: a model's own
     * generation settings may hold another. The others too, where those settings often do. */
    static const struct {
        const char *field;
        double neutral;
        double also; /* A second spelling of "off". */
        bool must_be_said;
    } fields[] = {
        {"temperature", 1, 1, true},
        {"top_p", 1, 1, true},
        {"top_k", -1, 0, true},
        {"min_p", 0, 0, false},
        {"typical_p", 1, 1, false},
        {"frequency_penalty", 0, 0, false},
        {"presence_penalty", 0, 0, false},
        {"repetition_penalty", 1, 1, false},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *value = json_object_get(sent, fields[i].field);
        if (!value || json_is_null(value)) {
            if (fields[i].must_be_said) {
                return false;
            }
            continue;
        }
        double number = json_number_value(value);
        if (!json_is_number(value) || (number != fields[i].neutral && number != fields[i].also)) {
            return false;
        }
    }
    const json_t *bias = json_object_get(sent, "logit_bias");
    return !bias || json_is_null(bias) || json_object_size(bias) == 0;
}
