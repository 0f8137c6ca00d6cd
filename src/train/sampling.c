/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/sampling.h"

#include <string.h>

#include "base/mem.h"

/* A number that is neutral at one value. */
struct number_field {
    const char *name;
    double neutral;
    double also;       /* A second spelling of "off". */
    bool must_be_said; /* Models' own generation settings often hold another. */
};

static const struct number_field numbers[] = {
    {"top_p", 1, 1, true},
    {"top_k", -1, 0, true},
    {"min_p", 0, 0, false},
    {"top_a", 0, 0, false},
    {"typical_p", 1, 1, false},
    {"frequency_penalty", 0, 0, false},
    {"presence_penalty", 0, 0, false},
    {"repetition_penalty", 1, 1, false},
    {"repeat_penalty", 1, 1, false},
    {"length_penalty", 1, 1, false},
    {"dry_multiplier", 0, 0, false},
    {"xtc_probability", 0, 0, false},
    {"mirostat", 0, 0, false},
    {"dynatemp_range", 0, 0, false},
    {"min_tokens", 0, 0, false}, /* Until then the stop tokens are ruled out. */
};

/* Switches and lists: there, and neither null, false nor empty. */
static const char *const biases[] = {"logit_bias",        "bad_words",
                                     "ignore_eos",        "custom_logit_processor",
                                     "logits_processors", "thinking_token_budget"};
static const char *const constraints[] = {
    "guided_json", "guided_regex",       "guided_choice",    "guided_grammar",
    "grammar",     "structured_outputs", "json_schema",      "regex",
    "ebnf",        "structural_tag",     "allowed_token_ids"};

const char *const sampling_fields[] = {"temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "top_a",
                                       "typical_p",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "repetition_penalty",
                                       "repeat_penalty",
                                       "length_penalty",
                                       "dry_multiplier",
                                       "xtc_probability",
                                       "mirostat",
                                       "dynatemp_range",
                                       "min_tokens",
                                       "logit_bias",
                                       "bad_words",
                                       "ignore_eos",
                                       "custom_logit_processor",
                                       "logits_processors",
                                       "thinking_token_budget",
                                       "guided_json",
                                       "guided_regex",
                                       "guided_choice",
                                       "guided_grammar",
                                       "grammar",
                                       "structured_outputs",
                                       "json_schema",
                                       "regex",
                                       "ebnf",
                                       "structural_tag",
                                       "allowed_token_ids",
                                       "response_format",
                                       "tool_choice",
                                       "use_beam_search",
                                       NULL};

static const json_t *field(const json_t *request, const char *name) {
    const json_t *value = json_object_get(request, name);
    return json_is_null(value) ? NULL : value;
}

static bool is_set(const json_t *request, const char *name) {
    const json_t *value = field(request, name);
    bool empty = json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
                 (json_is_object(value) && json_object_size(value) == 0) ||
                 (json_is_string(value) && json_string_length(value) == 0);
    return value && !empty;
}

static bool any_is_set(const json_t *request, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (is_set(request, names[i])) {
            return true;
        }
    }
    return false;
}

bool sampling_is_biased(const json_t *request) {
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        const json_t *value = field(request, numbers[i].name);
        double number = json_number_value(value);
        if (value && (!json_is_number(value) ||
                      (number != numbers[i].neutral && number != numbers[i].also))) {
            return true;
        }
    }
    return any_is_set(request, biases, ARRAY_LEN(biases));
}

bool sampling_is_neutral(const json_t *request) {
    const json_t *temperature = field(request, "temperature");
    bool all_said = json_is_number(temperature) && json_number_value(temperature) == 1;
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        all_said = all_said && (!numbers[i].must_be_said || field(request, numbers[i].name));
    }
    return all_said && !sampling_is_biased(request);
}

bool sampling_is_greedy(const json_t *request) {
    const json_t *temperature = field(request, "temperature");
    return (json_is_number(temperature) && json_number_value(temperature) == 0) ||
           is_set(request, "use_beam_search");
}

/* {"type": "text"} constrains nothing. */
static bool has_format(const json_t *request) {
    const json_t *format = field(request, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    return format && !(type && strcmp(type, "text") == 0);
}

/* auto and none leave the model its choice, or take the tools away before it sees them. */
static bool forces_tool(const json_t *request) {
    const json_t *choice = field(request, "tool_choice");
    const char *word = json_string_value(choice);
    return choice && !(word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0));
}

bool sampling_is_constrained(const json_t *request) {
    return any_is_set(request, constraints, ARRAY_LEN(constraints)) || has_format(request) ||
           forces_tool(request);
}
