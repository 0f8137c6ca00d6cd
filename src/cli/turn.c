/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/turn.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

/* The number of tokens: ids, else texts, else what usage says. */
static long long count_of(const json_t *line, const char *ids, const char *texts,
                          const char *usage_field) {
    const json_t *list = json_object_get(line, ids);
    if (json_is_array(list)) {
        return (long long)json_array_size(list);
    }
    list = texts ? json_object_get(line, texts) : NULL;
    if (json_array_size(list) > 0) {
        return (long long)json_array_size(list);
    }
    const json_t *n = json_object_get(json_object_get(line, "usage"), usage_field);
    return json_is_integer(n) ? json_integer_value(n) : -1;
}

void turn_read(const json_t *line, struct turn *out) {
    size_t i = 0;
    const json_t *value = NULL;
    *out = (struct turn){.number = json_integer_value(json_object_get(line, "turn")),
                         .role = text_of(line, "role"),
                         .finish = text_of(line, "finish_reason"),
                         .latency_s = json_number_value(json_object_get(line, "latency_s"))};
    if (!*out->finish) {
        out->finish = text_of(line, "end");
    }
    const json_t *n_prompt = json_object_get(line, "n_prompt");
    out->n_prompt = json_is_integer(n_prompt)
                        ? json_integer_value(n_prompt)
                        : count_of(line, "prompt_token_ids", NULL, "prompt_tokens");
    out->n_completion =
        count_of(line, "completion_token_ids", "completion_tokens", "completion_tokens");
    json_array_foreach(json_object_get(line, "per_token_logps"), i, value) {
        if (json_is_number(value)) {
            out->logp_sum += json_number_value(value);
            out->n_logps++;
        }
    }
    out->has_logp = out->n_logps > 0;
    const json_t *trainable = json_object_get(line, "trainable");
    out->trainable = json_is_true(trainable) ? "yes" : json_is_false(trainable) ? "no" : "-";
    const json_t *findings = json_object_get(line, "findings");
    out->findings = json_is_array(findings) ? findings : NULL;
}

void turn_findings(const struct turn *t, char *out, size_t size) {
    size_t i = 0;
    size_t used = 0;
    const json_t *value = NULL;
    out[0] = 0;
    json_array_foreach(t->findings, i, value) {
        const char *code = json_string_value(value);
        code = code ? code : text_of(value, "code");
        int n = snprintf(out + used, size - used, "%s%s", used ? " " : "", code);
        if (n < 0 || (size_t)n >= size - used) {
            return;
        }
        used += (size_t)n;
    }
}

void turn_mean_logp(double sum, size_t n, char out[32]) {
    if (n == 0) {
        (void)snprintf(out, 32, "-");
    } else {
        (void)snprintf(out, 32, "%.3f", sum / (double)n);
    }
}

void turn_latency(const struct turn *t, char out[32]) {
    if (t->latency_s < 1) {
        (void)snprintf(out, 32, "%.0f ms", 1000 * t->latency_s);
    } else {
        (void)snprintf(out, 32, "%.2f s", t->latency_s);
    }
}
