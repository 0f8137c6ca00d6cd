/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_voice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const char *const voice_names[] = {"vllm",   "sglang",   "llamacpp", "openai",
                                   "router", "together", NULL};

/* --- requests --- */

static bool is_true(const struct ask *a, const char *field) {
    return json_is_true(json_object_get(a->body, field));
}

static bool refuse(struct refusal *no, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(struct refusal *no, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    no->status = 400;
    no->type = "invalid_request_error";
    (void)vsnprintf(no->text, sizeof no->text, fmt, args);
    va_end(args);
    return false;
}

static bool hear_sglang(struct ask *a, struct refusal *no) {
    a->choice_ids = is_true(a, "return_token_ids");
    a->input_ids = is_true(a, "return_input_ids_in_sglext");
    a->output_ids = is_true(a, "return_output_ids_in_sglext");
    if (a->choice_ids && is_true(a, "stream")) {
        return refuse(no, "return_token_ids is not supported with streaming");
    }
    (void)json_object_del(a->body, "return_token_ids"); /* They are told apart from the tokens. */
    return true;
}

static bool hear_llamacpp(struct ask *a, struct refusal *no) {
    bool tools = json_array_size(json_object_get(a->body, "tools")) > 0;
    json_int_t n = json_integer_value(json_object_get(a->body, "n_probs"));
    if (is_true(a, "logprobs") && tools && is_true(a, "stream")) {
        return refuse(no, "logprobs is not supported with tools + stream");
    }
    (void)json_object_del(a->body, "return_token_ids");
    if (n > 0) {
        (void)json_object_set_new(a->body, "logprobs", json_true());
        (void)json_object_set_new(a->body, "top_logprobs", json_integer(n));
    }
    return true;
}

static bool hear_openai(struct ask *a, struct refusal *no) {
    static const char *const unknown[] = {"return_token_ids", "return_tokens_as_token_ids",
                                          "n_probs", "top_k"};
    static const char *const unreasoned[] = {"logprobs", "top_logprobs", "max_tokens"};
    const char *model = json_string_value(json_object_get(a->body, "model"));
    bool reasons = model && (strncmp(model, "gpt-5", 5) == 0 || strncmp(model, "o3", 2) == 0);
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        if (json_object_get(a->body, unknown[i])) {
            return refuse(no, "Unrecognized request argument supplied: %s", unknown[i]);
        }
    }
    for (size_t i = 0; reasons && i < ARRAY_LEN(unreasoned); i++) {
        if (json_object_get(a->body, unreasoned[i])) {
            return refuse(no, "Unsupported parameter: '%s' is not supported with this model%s.",
                          unreasoned[i], i == 2 ? ". Use 'max_completion_tokens' instead" : "");
        }
    }
    return true;
}

static bool hear_together(struct ask *a, struct refusal *no) {
    const json_t *n = json_object_get(a->body, "logprobs");
    if (n && !json_is_null(n) && !json_is_integer(n)) {
        return refuse(no, "logprobs: want an integer from 0 to 20");
    }
    (void)json_object_del(a->body, "return_token_ids");
    (void)json_object_set_new(a->body, "logprobs", json_boolean(json_integer_value(n) > 0));
    return true;
}

bool voice_hears(const struct script *s, struct ask *a, struct refusal *no) {
    switch (s->voice) {
    case VOICE_SGLANG:
        return hear_sglang(a, no);
    case VOICE_LLAMACPP:
        return hear_llamacpp(a, no);
    case VOICE_OPENAI:
        return hear_openai(a, no);
    case VOICE_ROUTER:
        (void)json_object_del(a->body, "return_token_ids");
        return true;
    case VOICE_TOGETHER:
        return hear_together(a, no);
    default:
        return true;
    }
}

/* --- answers --- */

static json_t *get(const json_t *o, const char *field) {
    return json_object_get(o, field);
}

/* A new reference, to null where there is none. */
static json_t *keep(const json_t *o, const char *field) {
    json_t *v = get(o, field);
    return v ? json_incref(v) : json_null();
}

static void copy_if(json_t *to, const json_t *from, const char *field) {
    if (get(from, field)) {
        (void)json_object_set(to, field, get(from, field));
    }
}

static json_t *ids_of(const struct token *v, size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++) {
        (void)json_array_append_new(list, json_integer(v[i].id));
    }
    return list;
}

/* Chunks have one choice, or none. */
static json_t *first_choice(const json_t *answer) {
    return json_array_get(get(answer, "choices"), 0);
}

static json_t *head_of(const json_t *answer) {
    return json_pack("{s:O, s:O, s:O, s:O}", "id", get(answer, "id"), "object",
                     get(answer, "object"), "created", get(answer, "created"), "model",
                     get(answer, "model"));
}

/* --- SGLang: absent values are null, but for tool calls --- */

static json_t *sglang_message(const json_t *m) {
    json_t *reasoning = get(m, "reasoning") ? get(m, "reasoning") : get(m, "reasoning_content");
    json_t *o = json_pack("{s:o, s:o, s:O?}", "role", keep(m, "role"), "content",
                          keep(m, "content"), "reasoning_content", reasoning);
    if (json_array_size(get(m, "tool_calls")) > 0) {
        copy_if(o, m, "tool_calls");
    }
    return o;
}

static json_t *sglang_row(const json_t *row) {
    size_t i;
    json_t *top;
    json_t *o = json_pack("{s:O, s:O, s:O}", "token", get(row, "token"), "bytes", get(row, "bytes"),
                          "logprob", get(row, "logprob"));
    if (get(row, "top_logprobs")) {
        json_t *list = json_array();
        json_array_foreach(get(row, "top_logprobs"), i, top) {
            (void)json_array_append_new(list, sglang_row(top));
        }
        (void)json_object_set_new(o, "top_logprobs", list);
    }
    return o;
}

static json_t *sglang_logprobs(const json_t *logprobs) {
    size_t i;
    json_t *row;
    if (!json_is_object(logprobs)) {
        return json_null();
    }
    json_t *rows = json_array();
    json_array_foreach(get(logprobs, "content"), i, row) {
        (void)json_array_append_new(rows, sglang_row(row));
    }
    return json_pack("{s:o}", "content", rows);
}

static json_t *sglang_choice(const json_t *choice, const char *message, bool ends) {
    json_t *none = json_object();
    json_t *o =
        json_pack("{s:O, s:o, s:o, s:o, s:n}", "index", get(choice, "index"), message,
                  sglang_message(ends ? none : get(choice, message)), "logprobs",
                  ends ? json_null() : sglang_logprobs(get(choice, "logprobs")), "finish_reason",
                  ends ? keep(choice, "finish_reason") : json_null(), "matched_stop");
    if (ends) {
        (void)json_object_set_new(o, "matched_stop", json_integer(TOKEN_IM_END));
    }
    json_decref(none);
    return o;
}

static json_t *sglang_ext(const struct turn *t) {
    json_t *o = json_object();
    if (t->ask->input_ids) {
        (void)json_object_set_new(o, "input_ids", ids_of(t->ask->prompt.v, t->ask->prompt.n));
    }
    if (t->ask->output_ids) {
        json_t *lists = json_array();
        for (long long i = 0; i < t->ask->n; i++) {
            (void)json_array_append_new(lists, ids_of(t->completion.v, t->completion.n));
        }
        (void)json_object_set_new(o, "output_ids", lists);
    }
    return o;
}

static json_t *sglang_usage(const json_t *usage) {
    json_t *o = usage ? json_copy((json_t *)usage) : json_null();
    if (json_is_object(o)) {
        (void)json_object_set_new(o, "prompt_tokens_details", json_null());
        (void)json_object_set_new(o, "reasoning_tokens", json_integer(0));
        (void)json_object_set_new(o, "completion_tokens_details", json_null());
    }
    return o;
}

static void sglang_add(json_t *list, const json_t *answer, json_t *choice, json_t *usage,
                       json_t *ext) {
    json_t *o = head_of(answer);
    json_t *choices = json_array();
    if (choice) {
        (void)json_array_append_new(choices, choice);
    }
    (void)json_object_set_new(o, "choices", choices);
    (void)json_object_set_new(o, "usage", usage);
    if (ext) {
        (void)json_object_set_new(o, "sglext", ext);
    }
    (void)json_array_append_new(list, o);
}

static void sglang_chunks(const struct turn *t, const json_t *answer, json_t *list) {
    const json_t *choice = first_choice(answer);
    if (!choice) {
        sglang_add(list, answer, NULL, sglang_usage(get(answer, "usage")), NULL);
        return;
    }
    bool ends = json_is_string(get(choice, "finish_reason"));
    if (!ends || json_is_object(get(choice, "logprobs")) ||
        json_object_size(get(choice, "delta")) > 0) {
        sglang_add(list, answer, sglang_choice(choice, "delta", false), json_null(), NULL);
    }
    if (!ends) {
        return;
    }
    sglang_add(list, answer, sglang_choice(choice, "delta", true), json_null(), NULL);
    if ((t->ask->input_ids || t->ask->output_ids) &&
        json_integer_value(get(choice, "index")) == t->ask->n - 1) {
        sglang_add(list, answer, NULL, json_null(), sglang_ext(t));
    }
}

static void sglang_whole(const struct turn *t, const json_t *answer, json_t *list) {
    size_t i;
    json_t *choice;
    json_t *o = head_of(answer);
    json_t *choices = json_array();
    json_array_foreach(get(answer, "choices"), i, choice) {
        json_t *told = sglang_choice(choice, "message", false);
        (void)json_object_set_new(told, "finish_reason", keep(choice, "finish_reason"));
        (void)json_object_set_new(told, "matched_stop", json_integer(TOKEN_IM_END));
        if (t->ask->choice_ids) {
            (void)json_object_set_new(told, "prompt_token_ids",
                                      ids_of(t->ask->prompt.v, t->ask->prompt.n));
            (void)json_object_set_new(told, "response_token_ids",
                                      ids_of(t->completion.v, t->completion.n));
        }
        (void)json_array_append_new(choices, told);
    }
    (void)json_object_set_new(o, "choices", choices);
    (void)json_object_set_new(o, "usage", sglang_usage(get(answer, "usage")));
    (void)json_object_set_new(o, "metadata", json_pack("{s:s}", "weight_version", "default"));
    if (t->ask->input_ids || t->ask->output_ids) {
        (void)json_object_set_new(o, "sglext", sglang_ext(t));
    }
    (void)json_array_append_new(list, o);
}

/* --- llama.cpp: sorted keys, an id in each row, none for the stop token --- */

static json_t *llama_row(const json_t *row, json_int_t id) {
    json_t *o = json_pack("{s:I, s:O, s:O, s:O}", "id", id, "token", get(row, "token"), "bytes",
                          get(row, "bytes"), "logprob", get(row, "logprob"));
    copy_if(o, row, "top_logprobs");
    return o;
}

/* The rows' ids are in the order of the completion: `at` is where the first stands. */
static json_t *llama_rows(const struct turn *t, const json_t *logprobs, size_t at) {
    size_t i;
    json_t *row;
    json_t *rows = json_array();
    json_array_foreach(get(logprobs, "content"), i, row) {
        if (at + i + 1 < t->completion.n) {
            (void)json_array_append_new(rows, llama_row(row, t->completion.v[at + i].id));
        }
    }
    return json_pack("{s:o}", "content", rows);
}

static json_t *llama_choice(const struct turn *t, const json_t *choice, const char *message) {
    json_t *o = json_pack("{s:o, s:O, s:O}", "finish_reason", keep(choice, "finish_reason"),
                          "index", get(choice, "index"), message, get(choice, message));
    if (json_is_object(get(choice, "logprobs"))) {
        size_t at = (size_t)json_integer_value(get(choice, "at"));
        (void)json_object_set_new(o, "logprobs", llama_rows(t, get(choice, "logprobs"), at));
    }
    return o;
}

static json_t *llama_told(const struct turn *t, const json_t *answer, const char *message) {
    const json_t *choice = first_choice(answer);
    json_t *choices = json_array();
    if (choice) {
        (void)json_array_append_new(choices, llama_choice(t, choice, message));
    }
    json_t *o =
        json_pack("{s:o, s:O, s:O, s:O, s:s, s:O}", "choices", choices, "created",
                  get(answer, "created"), "id", get(answer, "id"), "model", get(answer, "model"),
                  "system_fingerprint", "b0-scripted", "object", get(answer, "object"));
    copy_if(o, answer, "usage");
    return o;
}

/* --- OpenAI --- */

static json_t *openai_choice(const json_t *choice, const char *message) {
    json_t *logprobs = get(choice, "logprobs");
    return json_pack("{s:O, s:O, s:o, s:o}", "index", get(choice, "index"), message,
                     get(choice, message), "logprobs",
                     json_is_object(logprobs)
                         ? json_pack("{s:O, s:n}", "content", get(logprobs, "content"), "refusal")
                         : json_null(),
                     "finish_reason", keep(choice, "finish_reason"));
}

static json_t *openai_told(const struct turn *t, const json_t *answer, const char *message) {
    size_t i;
    json_t *choice;
    json_t *o = head_of(answer);
    json_t *choices = json_array();
    json_array_foreach(get(answer, "choices"), i, choice) {
        (void)json_array_append_new(choices, openai_choice(choice, message));
    }
    (void)json_object_set_new(o, "service_tier", json_string("default"));
    (void)json_object_set_new(o, "system_fingerprint", json_string("fp_scripted"));
    (void)json_object_set_new(o, "choices", choices);
    if (t->ask->include_usage || !t->ask->stream) {
        (void)json_object_set_new(o, "usage", keep(answer, "usage"));
    }
    return o;
}

/* --- Together --- */

static json_t *together_chunk(const struct turn *t, const json_t *answer) {
    json_t *choice = first_choice(answer);
    json_t *o = head_of(answer);
    json_t *choices = json_array();
    if (choice) {
        const json_t *row = json_array_get(get(get(choice, "logprobs"), "content"), 0);
        json_t *delta = json_copy(get(choice, "delta"));
        size_t at = (size_t)json_integer_value(get(choice, "at"));
        if (row) {
            (void)json_object_set_new(delta, "token_id", json_integer(t->completion.v[at].id));
        }
        json_t *told = json_pack("{s:O, s:o, s:o, s:o}", "index", get(choice, "index"), "logprobs",
                                 row ? keep(row, "logprob") : json_null(), "finish_reason",
                                 keep(choice, "finish_reason"), "delta", delta);
        (void)json_array_append_new(choices, told);
    }
    (void)json_object_set_new(o, "choices", choices);
    (void)json_object_set_new(o, "usage", keep(answer, "usage"));
    return o;
}

static json_t *together_lists(const struct turn *t, const json_t *logprobs) {
    size_t i;
    json_t *row;
    json_t *tokens = json_array();
    json_t *values = json_array();
    if (!json_is_object(logprobs)) {
        json_decref(tokens);
        json_decref(values);
        return json_null();
    }
    json_array_foreach(get(logprobs, "content"), i, row) {
        (void)json_array_append(tokens, get(row, "token"));
        (void)json_array_append(values, get(row, "logprob"));
    }
    return json_pack("{s:o, s:o, s:o}", "token_ids", ids_of(t->completion.v, t->completion.n),
                     "tokens", tokens, "token_logprobs", values);
}

static json_t *together_whole(const struct turn *t, const json_t *answer) {
    size_t i;
    json_t *choice;
    json_t *o = head_of(answer);
    json_t *choices = json_array();
    json_array_foreach(get(answer, "choices"), i, choice) {
        (void)json_array_append_new(choices,
                                    json_pack("{s:O, s:O, s:o, s:o}", "index", get(choice, "index"),
                                              "message", get(choice, "message"), "logprobs",
                                              together_lists(t, get(choice, "logprobs")),
                                              "finish_reason", keep(choice, "finish_reason")));
    }
    (void)json_object_set_new(o, "choices", choices);
    copy_if(o, answer, "usage");
    return o;
}

json_t *voice_tells(const struct turn *t, const json_t *answer, bool whole) {
    json_t *list = json_array();
    const char *message = whole ? "message" : "delta";
    switch (t->script->voice) {
    case VOICE_SGLANG:
        (whole ? sglang_whole : sglang_chunks)(t, answer, list);
        return list;
    case VOICE_LLAMACPP:
        (void)json_array_append_new(list, llama_told(t, answer, message));
        return list;
    case VOICE_OPENAI:
        (void)json_array_append_new(list, openai_told(t, answer, message));
        return list;
    case VOICE_TOGETHER:
        (void)json_array_append_new(list,
                                    whole ? together_whole(t, answer) : together_chunk(t, answer));
        return list;
    default: /* A provider's, most often vLLM's own. */
        (void)json_array_append(list, (json_t *)answer);
        return list;
    }
}
