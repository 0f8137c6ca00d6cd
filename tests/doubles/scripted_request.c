/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "tests/doubles/scripted_voice.h"

#define TOP_LOGPROBS_MAX 20 /* The engine's default limit. */
#define CHOICES_MAX 16      /* More than any test asks for. */

static bool refuse(struct refusal *no, int status, const char *type, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static bool refuse(struct refusal *no, int status, const char *type, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    no->status = status;
    no->type = type;
    (void)vsnprintf(no->text, sizeof no->text, fmt, args);
    va_end(args);
    return false;
}

#define BAD(...) refuse(no, 400, "BadRequestError", __VA_ARGS__)

static bool is_set(const json_t *object, const char *field) {
    const json_t *v = json_object_get(object, field);
    return v && !json_is_null(v);
}

static bool truth(const json_t *object, const char *field) {
    return json_is_true(json_object_get(object, field));
}

/* Refused fields first, since an engine that does not know one refuses before it reads the rest. */
static bool apply_script(const struct script *s, struct ask *a, struct refusal *no) {
    size_t i;
    json_t *field;
    json_array_foreach(s->refuse_fields, i, field) {
        if (json_object_get(a->body, json_string_value(field))) {
            return BAD("[{'type': 'extra_forbidden', 'loc': ('body', '%s'), 'msg': 'Extra inputs "
                       "are not permitted'}]",
                       json_string_value(field));
        }
    }
    json_array_foreach(s->ignore_fields, i, field) {
        json_object_del(a->body, json_string_value(field));
    }
    return voice_hears(s, a, no);
}

static bool read_model(const struct script *s, struct ask *a, struct refusal *no) {
    a->model = json_string_value(json_object_get(a->body, "model"));
    if (!a->model) {
        a->model = s->model;
    }
    if (!s->any_model && strcmp(a->model, s->model) != 0) {
        return refuse(no, 404, "NotFoundError", "The model `%s` does not exist.", a->model);
    }
    return true;
}

static bool read_stream(struct ask *a, struct refusal *no) {
    const json_t *options = json_object_get(a->body, "stream_options");
    a->stream = truth(a->body, "stream");
    if (is_set(a->body, "stream_options") && !a->stream) {
        return BAD("Stream options can only be defined when `stream=True`.");
    }
    a->include_usage = truth(options, "include_usage");
    a->continuous_usage = a->include_usage && truth(options, "continuous_usage_stats");
    return true;
}

static bool read_logprobs(struct ask *a, struct refusal *no) {
    const json_t *top = json_object_get(a->body, "top_logprobs");
    a->logprobs = truth(a->body, "logprobs");
    a->top = json_is_integer(top) ? json_integer_value(top) : 0;
    if (a->top < 0) {
        return BAD("`top_logprobs` must be a positive value.");
    }
    if (a->top > 0 && !a->logprobs) {
        return BAD("when using `top_logprobs`, `logprobs` must be set to true.");
    }
    if (a->top > TOP_LOGPROBS_MAX) {
        return BAD("Requested sample logprobs of %lld, which is greater than max allowed: %d",
                   a->top, TOP_LOGPROBS_MAX);
    }
    a->token_ids = truth(a->body, "return_token_ids");
    a->tokens_as_ids = truth(a->body, "return_tokens_as_token_ids");
    if (json_is_false(json_object_get(a->body, "include_reasoning"))) {
        a->logprobs = false;
        a->token_ids = false;
    }
    return true;
}

static bool read_tools(struct ask *a, struct refusal *no) {
    const json_t *tools = json_object_get(a->body, "tools");
    if (is_set(a->body, "tools") && json_array_size(tools) == 0) {
        return BAD("`tools` must be a list with at least one tool.");
    }
    if (is_set(a->body, "tool_choice") && !tools &&
        strcmp("none", json_is_string(json_object_get(a->body, "tool_choice"))
                           ? json_string_value(json_object_get(a->body, "tool_choice"))
                           : "") != 0) {
        return BAD("When using `tool_choice`, `tools` must be set.");
    }
    a->tools = tools && json_array_size(tools) > 0;
    return true;
}

/* Counts the prompt, and what is left of the window. */
static bool read_length(const struct script *s, struct ask *a, struct refusal *no) {
    if (tokens_add_prompt(&a->prompt, a->body) < 0) {
        return refuse(no, 500, "InternalServerError", "out of memory");
    }
    const json_t *max = json_object_get(a->body, "max_completion_tokens");
    max = json_is_integer(max) ? max : json_object_get(a->body, "max_tokens");
    long long n_prompt = (long long)a->prompt.n;
    a->max_tokens = json_is_integer(max) ? json_integer_value(max) : s->max_model_len - n_prompt;
    if (json_is_integer(max) && a->max_tokens < 1) {
        return BAD("max_tokens must be at least 1, got %lld.", a->max_tokens);
    }
    if (a->max_tokens < 1 || n_prompt + a->max_tokens > s->max_model_len) {
        return BAD("This model's maximum context length is %lld tokens. However, you requested "
                   "%lld tokens (%lld in the messages, %lld in the completion). Please reduce the "
                   "length of the messages or completion.",
                   s->max_model_len, n_prompt + a->max_tokens, n_prompt, a->max_tokens);
    }
    return true;
}

static bool read_rest(const struct script *s, struct ask *a, struct refusal *no) {
    const json_t *n = json_object_get(a->body, "n");
    a->temperature = json_number_value(json_object_get(a->body, "temperature"));
    a->n = json_is_integer(n) ? json_integer_value(n) : 1;
    if (a->n < 1 || a->n > CHOICES_MAX) {
        return BAD("n must be between 1 and %d, got %lld.", CHOICES_MAX, a->n);
    }
    if (json_array_size(json_object_get(a->body, "messages")) == 0) {
        return BAD("[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}]");
    }
    return read_length(s, a, no);
}

bool ask_parse(struct sv body, const struct script *script, struct ask *out, struct refusal *no) {
    struct err err = {0};
    struct ask a = {0};
    if (json_parse(body, "body", &a.body, &err) < 0 || !json_is_object(a.body)) {
        json_decref(a.body);
        return BAD("[{'type': 'json_invalid', 'loc': ('body',), 'msg': 'JSON decode error: %s'}]",
                   err.code ? err.msg : "no object");
    }
    if (!apply_script(script, &a, no) || !read_model(script, &a, no) || !read_stream(&a, no) ||
        !read_logprobs(&a, no) || !read_tools(&a, no) || !read_rest(script, &a, no)) {
        ask_deinit(&a);
        return false;
    }
    *out = a;
    return true;
}

void ask_deinit(struct ask *a) {
    json_decref(a->body);
    tokens_deinit(&a->prompt);
    *a = (struct ask){0};
}
