/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/utf8.h"
#include "tests/doubles/scripted_answer.h"
#include "tests/doubles/scripted_put.h"
#include "tests/doubles/scripted_voice.h"

int turn_begin(struct turn *t) {
    TRY(tokens_add_assistant(&t->completion, t->scene->message));
    TRY(tokens_add_special(&t->completion, TOKEN_IM_END));
    bool cut = (long long)t->completion.n > t->ask->max_tokens;
    if (cut) {
        t->completion.n = (size_t)t->ask->max_tokens;
    }
    bool calls = json_object_get(t->scene->message, "tool_calls");
    t->finish_reason = t->scene->finish_is_null  ? NULL
                       : t->scene->finish_reason ? t->scene->finish_reason
                       : cut                     ? "length"
                       : calls                   ? "tool_calls"
                                                 : "stop";
    return 0;
}

void turn_deinit(struct turn *t) {
    tokens_deinit(&t->completion);
}

struct sv events_get(const struct events *e, size_t i) {
    size_t from = i ? e->ends[i - 1] : 0;
    return (struct sv){e->bytes.data + from, e->ends[i] - from};
}

void events_deinit(struct events *e) {
    buf_deinit(&e->bytes);
    free(e->ends);
    *e = (struct events){0};
}

static int begin_event(const struct turn *t, struct events *e) {
    const char *end = t->scene->crlf ? "\r\n" : "\n";
    TRY(t->scene->pings ? buf_addf(&e->bytes, ": ping%s%s", end, end) : 0);
    return buf_adds(&e->bytes, "data: ");
}

static int close_event(const struct turn *t, struct events *e) {
    TRY(buf_adds(&e->bytes, t->scene->crlf ? "\r\n\r\n" : "\n\n"));
    if (e->n == e->cap) {
        size_t cap = e->cap ? 2 * e->cap : 64;
        size_t *ends = realloc(e->ends, cap * sizeof *ends);
        if (!ends) {
            return ERR_NOMEM;
        }
        e->ends = ends;
        e->cap = cap;
    }
    e->ends[e->n++] = e->bytes.len;
    return 0;
}

/* In the words of another engine: the event just built becomes as many as that one sends. */
static int retell(const struct turn *t, struct events *e) {
    size_t from = e->n ? e->ends[e->n - 1] : 0;
    struct sv event = {e->bytes.data + from, e->bytes.len - from};
    size_t brace = sv_find(event, SV("{"));
    AUTO_JSON json_t *chunk = NULL;
    size_t i;
    json_t *told;
    if (brace == (size_t)-1) {
        return close_event(t, e);
    }
    TRY(json_parse(sv_cut(event, brace), "event", &chunk, NULL));
    json_t *choice = json_array_get(json_object_get(chunk, "choices"), 0);
    if (choice) {
        (void)json_object_set_new(choice, "at", json_integer((json_int_t)e->at));
    }
    AUTO_JSON json_t *list = voice_tells(t, chunk, /* whole= */ false);
    e->bytes.len = from;
    json_array_foreach(list, i, told) {
        TRY(begin_event(t, e));
        TRY(json_compact(told, &e->bytes));
        TRY(close_event(t, e));
    }
    return 0;
}

static int end_event(const struct turn *t, struct events *e) {
    return t->script->voice == VOICE_VLLM || t->script->voice == VOICE_ROUTER ? close_event(t, e)
                                                                              : retell(t, e);
}

static int begin_chunk(const struct turn *t, struct events *e) {
    TRY(begin_event(t, e));
    TRY(buf_addf(&e->bytes,
                 "{\"id\":\"chatcmpl-%016llx\",\"object\":\"chat.completion.chunk\","
                 "\"created\":%lld,\"model\":",
                 t->number, t->created));
    TRY(json_quote(sv_from(t->ask->model), &e->bytes));
    return buf_adds(&e->bytes, ",\"choices\":[");
}

static bool is_missing(const struct turn *t, const struct events *e) {
    return t->scene->no_ids_from >= 0 && e->n >= (size_t)t->scene->no_ids_from;
}

static int end_chunk(const struct turn *t, size_t tokens, struct events *e) {
    if (t->scene->usage == USAGE_CONTINUOUS || t->ask->continuous_usage) {
        TRY(buf_adds(&e->bytes, ",\"usage\":"));
        TRY(put_usage(t, tokens, &e->bytes));
    }
    TRY(buf_addc(&e->bytes, '}'));
    return end_event(t, e);
}

static int add_role(const struct turn *t, unsigned choice, struct events *e) {
    TRY(begin_chunk(t, e));
    TRY(buf_addf(&e->bytes,
                 "{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                 "\"logprobs\":null,\"finish_reason\":null}]",
                 choice));
    TRY(put_prompt_ids(t, is_missing(t, e), &e->bytes));
    TRY(put_newer(t, ",\"prompt_text\":null", &e->bytes));
    return end_chunk(t, 0, e);
}

/* What one event carries of each choice. */
struct step {
    struct span tokens;
    enum token_part part;
    unsigned call;
    struct buf text; /* What the reader gets: whole characters. */
    bool is_last;
};

/* Takes tokens of one part, and the text so far but for a character that is not whole yet. */
static int next_step(const struct turn *t, size_t from, struct buf *held, struct step *s) {
    const struct token *v = t->completion.v;
    size_t to = from;
    buf_reset(&s->text);
    while (to < t->completion.n && to - from < (size_t)t->scene->tokens_per_event &&
           v[to].part == v[from].part && v[to].call == v[from].call) {
        if (v[to].part != PART_SILENT) {
            TRY(token_text(v[to].id, held));
        }
        to++;
    }
    s->tokens = (struct span){from, to};
    s->part = (enum token_part)v[from].part;
    s->call = v[from].call;
    s->is_last = to == t->completion.n;
    bool piece_ends = s->is_last || v[to].part != v[from].part || v[to].call != v[from].call;
    size_t whole = 0;
    while (whole < held->len) {
        size_t n = utf8_sequence((struct sv){held->data + whole, held->len - whole});
        if (n == 0 && held->len - whole < 4 && !piece_ends) {
            break;
        }
        whole += n ? n : 1;
    }
    if (s->part == PART_CALL_NAME && !piece_ends) {
        whole = 0; /* The parser gives a name only as a whole. */
    }
    TRY(buf_add(&s->text, held->data, whole));
    buf_consume(held, whole);
    return 0;
}

static int put_call_delta(const struct turn *t, const struct step *s, unsigned choice,
                          struct buf *out) {
    if (s->part == PART_CALL_NAME) {
        TRY(buf_adds(out, "{\"tool_calls\":[{\"id\":"));
        TRY(put_call_id(t, choice, s->call, out));
        TRY(buf_addf(out, ",\"type\":\"function\",\"index\":%u,\"function\":{\"name\":", s->call));
    } else {
        TRY(buf_addf(out, "{\"tool_calls\":[{\"index\":%u,\"function\":{\"arguments\":", s->call));
    }
    TRY(json_quote(buf_sv(&s->text), out));
    return buf_adds(out, "}}]}");
}

/* The value of "delta". Where no parser runs, an event without text has empty content. */
static int put_delta(const struct turn *t, const struct step *s, unsigned choice, struct buf *out) {
    if (s->text.len == 0) {
        return buf_adds(out, t->ask->tools ? "{}" : "{\"content\":\"\"}");
    }
    if (s->part == PART_CALL_NAME || s->part == PART_CALL_ARGUMENTS) {
        return put_call_delta(t, s, choice, out);
    }
    TRY(buf_addf(out, "{\"%s\":", s->part == PART_TEXT ? "content" : t->script->reasoning_key));
    TRY(json_quote(buf_sv(&s->text), out));
    return buf_addc(out, '}');
}

static int add_step(const struct turn *t, const struct step *s, unsigned choice, struct events *e) {
    struct buf *out = &e->bytes;
    e->at = s->tokens.from;
    TRY(begin_chunk(t, e));
    TRY(buf_addf(out, "{\"index\":%u,\"delta\":", choice));
    TRY(put_delta(t, s, choice, out));
    TRY(buf_adds(out, ",\"logprobs\":"));
    TRY(put_logprobs(t, choice, s->tokens, out));
    TRY(buf_adds(out, ",\"finish_reason\":"));
    TRY(put_text_or_null(s->is_last ? t->finish_reason : NULL, out));
    TRY(s->is_last ? buf_adds(out, ",\"stop_reason\":null") : 0);
    TRY(put_token_ids(t, s->tokens, is_missing(t, e) || (s->is_last && t->scene->late_ids), out));
    TRY(s->is_last ? put_newer(t, ",\"weight_versions\":null", out) : 0);
    TRY(buf_adds(out, "}]"));
    TRY(put_newer(t, ",\"kv_transfer_params\":null", out));
    return end_chunk(t, s->tokens.to, e);
}

/* The last ids, which did not come with finish_reason. */
static int add_late_ids(const struct turn *t, const struct step *s, struct events *e) {
    for (unsigned choice = 0; choice < t->ask->n; choice++) {
        TRY(begin_chunk(t, e));
        TRY(buf_addf(&e->bytes,
                     "{\"index\":%u,\"delta\":{},\"logprobs\":null,\"finish_reason\":null",
                     choice));
        TRY(put_token_ids(t, s->tokens, is_missing(t, e), &e->bytes));
        TRY(buf_adds(&e->bytes, "}]"));
        TRY(end_chunk(t, s->tokens.to, e));
    }
    return 0;
}

/* Where a parser holds text back, an event without any is sent only to one who asked for ids or
 * log-probabilities, and at the end. */
static int add_steps(const struct turn *t, struct buf *held, struct step *s, struct events *e) {
    bool asked = t->ask->logprobs || t->ask->token_ids;
    for (size_t i = 0; i < t->completion.n; i = s->tokens.to) {
        TRY(next_step(t, i, held, s));
        bool parsed = t->ask->tools || s->part == PART_SILENT;
        if (s->text.len == 0 && parsed && !asked && !s->is_last) {
            continue;
        }
        for (unsigned choice = 0; choice < t->ask->n; choice++) {
            TRY(add_step(t, s, choice, e));
        }
    }
    return t->scene->late_ids && t->ask->token_ids ? add_late_ids(t, s, e) : 0;
}

static int add_usage(const struct turn *t, struct events *e) {
    bool wanted = t->scene->usage == USAGE_ALWAYS || t->ask->include_usage;
    if (!wanted || t->scene->usage == USAGE_NEVER) {
        e->usage_at = SIZE_MAX;
        return 0;
    }
    e->usage_at = e->n;
    TRY(begin_chunk(t, e));
    TRY(buf_adds(&e->bytes, "],\"usage\":"));
    TRY(put_usage(t, t->completion.n, &e->bytes));
    TRY(buf_addc(&e->bytes, '}'));
    return end_event(t, e);
}

static int add_done(const struct turn *t, struct events *e) {
    if (t->scene->fault.kind == FAULT_NO_DONE || t->scene->fault.kind == FAULT_NO_BLANK_LINE) {
        return 0;
    }
    TRY(begin_event(t, e));
    TRY(buf_adds(&e->bytes, "[DONE]"));
    return end_event(t, e);
}

int events_build(const struct turn *t, struct events *out) {
    AUTO_BUF struct buf held = {0};
    struct step s = {0};
    int r = 0;
    for (unsigned choice = 0; choice < t->ask->n && r == 0; choice++) {
        r = add_role(t, choice, out);
    }
    r = r < 0 ? r : add_steps(t, &held, &s, out);
    r = r < 0 ? r : add_usage(t, out);
    r = r < 0 ? r : add_done(t, out);
    buf_deinit(&s.text);
    return r;
}
