/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"
#include "base/json.h"
#include "tests/doubles/scripted_answer.h"
#include "tests/doubles/scripted_put.h"
#include "tests/doubles/scripted_voice.h"

/* All text of one part, and of one tool call where the part is a call's. */
static int collect(const struct turn *t, enum token_part part, unsigned call, struct buf *out) {
    for (size_t i = 0; i < t->completion.n; i++) {
        const struct token *k = &t->completion.v[i];
        if (k->part == part && k->call == call) {
            TRY(token_text(k->id, out));
        }
    }
    return 0;
}

static int put_part_or_null(const struct turn *t, enum token_part part, struct buf *out) {
    AUTO_BUF struct buf text = {0};
    TRY(collect(t, part, /* call= */ 0, &text));
    return text.len ? json_quote(buf_sv(&text), out) : buf_adds(out, "null");
}

static int put_call(const struct turn *t, unsigned choice, unsigned call, struct buf *out) {
    AUTO_BUF struct buf name = {0};
    AUTO_BUF struct buf arguments = {0};
    TRY(collect(t, PART_CALL_NAME, call, &name));
    TRY(collect(t, PART_CALL_ARGUMENTS, call, &arguments));
    TRY(buf_adds(out, "{\"id\":"));
    TRY(put_call_id(t, choice, call, out));
    TRY(buf_adds(out, ",\"type\":\"function\",\"function\":{\"name\":"));
    TRY(json_quote(buf_sv(&name), out));
    TRY(buf_adds(out, ",\"arguments\":"));
    TRY(json_quote(buf_sv(&arguments), out));
    return buf_adds(out, "}}");
}

/* Those whose name was generated before max_tokens. */
static unsigned calls_of(const struct turn *t) {
    unsigned n = 0;
    for (size_t i = 0; i < t->completion.n; i++) {
        n = t->completion.v[i].part == PART_CALL_NAME ? t->completion.v[i].call + 1u : n;
    }
    return n;
}

static int put_message(const struct turn *t, unsigned choice, struct buf *out) {
    TRY(buf_adds(out, "{\"role\":\"assistant\",\"content\":"));
    TRY(put_part_or_null(t, PART_TEXT, out));
    TRY(buf_adds(out, ",\"refusal\":null,\"annotations\":null,\"audio\":null,"
                      "\"function_call\":null"));
    unsigned calls = calls_of(t);
    TRY(buf_adds(out, calls ? ",\"tool_calls\":[" : ""));
    for (unsigned i = 0; i < calls; i++) {
        TRY(i ? buf_addc(out, ',') : 0);
        TRY(put_call(t, choice, i, out));
    }
    TRY(buf_addf(out, "%s,\"%s\":", calls ? "]" : "", t->script->reasoning_key));
    TRY(put_part_or_null(t, PART_REASONING, out));
    return buf_addc(out, '}');
}

static int put_choice(const struct turn *t, unsigned choice, struct buf *out) {
    struct span all = {0, t->completion.n};
    TRY(buf_addf(out, "%s{\"index\":%u,\"message\":", choice ? "," : "", choice));
    TRY(put_message(t, choice, out));
    TRY(buf_adds(out, ",\"logprobs\":"));
    TRY(put_logprobs(t, choice, all, out));
    TRY(buf_adds(out, ",\"finish_reason\":"));
    TRY(put_text_or_null(t->finish_reason, out));
    TRY(buf_adds(out, ",\"stop_reason\":null"));
    TRY(put_token_ids(t, all, t->scene->no_ids_from >= 0, out));
    TRY(put_newer(t, ",\"routed_experts\":null,\"weight_versions\":null", out));
    return buf_addc(out, '}');
}

static int build(const struct turn *t, struct buf *out) {
    TRY(buf_addf(out,
                 "{\"id\":\"chatcmpl-%016llx\",\"object\":\"chat.completion\",\"created\":%lld,"
                 "\"model\":",
                 t->number, t->created));
    TRY(json_quote(sv_from(t->ask->model), out));
    TRY(buf_adds(out, ",\"choices\":["));
    for (unsigned i = 0; i < t->ask->n; i++) {
        TRY(put_choice(t, i, out));
    }
    TRY(buf_adds(out, "],\"service_tier\":null,\"system_fingerprint\":null,\"usage\":"));
    TRY(t->scene->usage == USAGE_NEVER ? buf_adds(out, "null")
                                       : put_usage(t, t->completion.n, out));
    TRY(buf_adds(out, ",\"prompt_logprobs\":null"));
    TRY(put_prompt_ids(t, t->scene->no_ids_from == 0, out));
    TRY(put_newer(t, ",\"prompt_text\":null", out));
    TRY(buf_adds(out, ",\"kv_transfer_params\":null"));
    TRY(put_newer(t, ",\"ec_transfer_params\":null,\"metrics\":null", out));
    return buf_addc(out, '}');
}

int answer_unary(const struct turn *t, struct buf *out) {
    if (t->script->voice == VOICE_VLLM) {
        return build(t, out);
    }
    AUTO_BUF struct buf plain = {0};
    AUTO_JSON json_t *answer = NULL;
    TRY(build(t, &plain));
    TRY(json_parse(buf_sv(&plain), "answer", &answer, NULL));
    AUTO_JSON json_t *list = voice_tells(t, answer, /* whole= */ true);
    return json_compact(json_array_get(list, 0), out);
}

int answer_error(int status, const char *type, const char *text, struct buf *out) {
    TRY(buf_adds(out, "{\"error\":{\"message\":"));
    TRY(json_quote(sv_from(text), out));
    return buf_addf(out, ",\"type\":\"%s\",\"param\":null,\"code\":%d}}", type, status);
}
