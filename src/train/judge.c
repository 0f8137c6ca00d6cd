/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/judge.h"

#include <string.h>

#include "base/json.h"
#include "base/json_loose.h"
#include "base/mem.h"
#include "train/finding.h"
#include "train/pairing.h"
#include "train/sampling.h"
#include "train/tokens.h"

static struct sv head_text(const json_t *head, const char *field) {
    return sv_from(json_string_value(json_object_get(head, field)));
}

static bool has(const struct trace_judgement *j, const char *code) {
    size_t i;
    json_t *one;
    json_array_foreach(j->findings, i, one) {
        const char *have = json_string_value(one);
        if (have && strcmp(have, code) == 0) {
            return true;
        }
    }
    return false;
}

static int find(struct trace_judgement *j, const char *code, struct err *err) {
    if (has(j, code)) { /* The gateway saw it too. */
        return 0;
    }
    if (json_array_append_new(j->findings, json_string(code)) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return 0;
}

/* The request as it went out, else as the agent sent it; NULL: bytes that only the engine
 * understood. */
static json_t *request_of(const struct trace_call *call) {
    static const char *const words[] = {"messages", "tools", "n", "include_reasoning", NULL};
    struct sv text = call->request.n > 0 ? call->request : call->agent_request;
    json_t *request = text.n > 0 ? json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL) : NULL;
    if (request || text.n == 0) {
        return request;
    }
    /* Tools' output may hold what jansson does not. */
    request = json_loose(text, words);
    AUTO_JSON json_t *sampling = request ? json_loose(text, sampling_fields) : NULL;
    if (sampling) {
        (void)json_object_update_missing(request, sampling); /* What is absent is not neutral. */
    }
    return request;
}

static enum agent_call kind_of(const struct judge *judge, const struct trace_call *call,
                               const json_t *request) {
    if (!judge->agent || !judge->agent->classify || !request) {
        return AGENT_CALL_MAIN;
    }
    return judge->agent->classify(request, head_text(call->intent, "agent_session"),
                                  head_text(call->intent, "agent_parent"));
}

/* An answer that broke off, failed or said no reason for its end led to nothing: the agent asked
 * again, or was stopped. One whose choice had ended when the agent left had all that matters. */
static bool led_to_nothing(const struct trace_call *call, const struct trace_judgement *j) {
    struct sv end = head_text(call->result, "end");
    bool has_reason = head_text(call->result, "finish_reason").n > 0;
    if (end.n == 0) {
        return false; /* Still under way, as far as is known. */
    }
    if (sv_eq(end, SV("complete"))) {
        return !has_reason || has(j, "no_choices") || has(j, "upstream_error_event");
    }
    return !sv_eq(end, SV("client_abort")) || !has_reason;
}

static int judge_role(const struct judge *judge, const struct trace_call *call,
                      const json_t *request, struct trace_judgement *out, struct err *err) {
    static const char *const codes[] = {[AGENT_CALL_TITLE] = "title",
                                        [AGENT_CALL_SUMMARY] = "summary",
                                        [AGENT_CALL_SUBAGENT] = "subagent"};
    enum agent_call kind = kind_of(judge, call, request);
    out->role = kind == AGENT_CALL_TITLE || kind == AGENT_CALL_SUMMARY ? "auxiliary" : "agent";
    int r = kind == AGENT_CALL_MAIN ? 0 : find(out, codes[kind], err);
    if (r == 0 && led_to_nothing(call, out)) {
        out->role = "discarded";
        if (sv_eq(head_text(call->result, "end"), SV("client_abort"))) {
            r = find(out, "abandoned", err);
        }
    }
    return r;
}

struct rule {
    bool broken;
    const char *code;
};

static int apply(const struct rule *rules, size_t n, struct trace_judgement *out, struct err *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = rules[i].broken ? find(out, rules[i].code, err) : 0;
    }
    return r;
}

static bool usage_differs(const struct tokens *t, const struct trace_judgement *out) {
    /* Where more than the first choice, or no stop token, is told, only the gateway could count. */
    return t->ids > 0 && t->usage_ids >= 0 && (long long)t->ids != t->usage_ids &&
           !has(out, "several_choices") && !has(out, "stop_token_absent");
}

/* What the engine gave, by number and by value. */
static int judge_tokens(const struct trace_call *call, const struct tokens *t,
                        const struct pairing *p, struct trace_judgement *out, struct err *err) {
    bool complete = sv_eq(head_text(call->result, "end"), SV("complete"));
    bool many = usage_differs(t, out);
    const struct rule rules[] = {
        {!complete, "not_complete"},
        {complete && head_text(call->result, "finish_reason").n == 0, "no_finish_reason"},
        {complete && t->prompt_ids == 0, "no_prompt_ids"},
        {complete && t->ids == 0, "no_sampled_ids"},
        {complete && t->logps == 0 && !t->nonfinite_logp, "no_logprobs"},
        {t->bad_ids, "bad_token_id"},
        {t->ids > 0 && t->logps > 0 && t->ids != t->logps, "logprob_misalign"},
        {p->id_differs, "logprob_misalign"},
        {t->ids > 0 && (t->ids < t->logps || (many && (long long)t->ids < t->usage_ids)),
         "ids_incomplete"},
        {t->logps > 0 && t->logps < t->ids, "logprobs_incomplete"},
        {p->contradicted, "logprob_contradicted"},
        {p->texts_shifted, "id_text_mismatch"},
        {t->null_logp && !has(out, "nonfinite_logprob"), "null_logprob"},
        {t->nonfinite_logp, "nonfinite_logprob"},
        {t->floored_logp, "floored_logprob"},
        {t->positive_logp, "positive_logprob"},
        {t->zeros > 0 && !has(out, "zero_logprobs"), "certain_tokens"},
        {many, "usage_mismatch"},
        {t->prompt_ids > 0 && t->usage_prompt >= 0 && (long long)t->prompt_ids != t->usage_prompt,
         "prompt_usage_mismatch"},
        {complete && t->ids > 0 && t->usage_ids < 0, "no_usage"},
        {complete && p->text_differs, "text_mismatch"},
    };
    return apply(rules, ARRAY_LEN(rules), out, err);
}

/* How it was sampled. */
static int judge_sampling(const struct judge *judge, const struct trace_call *call,
                          const struct tokens *t, const json_t *request,
                          struct trace_judgement *out, struct err *err) {
    const json_t *sent =
        request ? request : json_object_get(json_object_get(call->intent, "sampling"), "sent");
    const json_t *n = json_object_get(sent, "n");
    bool sampled = t->ids > 0 || t->logps > 0;
    bool raw = t->logps > 0 && !judge->logprobs_processed && !sampling_is_neutral(sent);
    const struct rule rules[] = {
        {raw, "raw_logprobs"},
        {sampled && sampling_is_greedy(sent), "greedy_sampling"},
        {sampled && sampling_is_constrained(sent), "constrained_decoding"},
        {sampled && judge->logprobs_processed && sampling_is_biased(sent), "biased_sampling"},
        {json_is_integer(n) && json_integer_value(n) > 1, "several_choices"},
        {json_is_false(json_object_get(sent, "include_reasoning")), "reasoning_hidden"},
    };
    return apply(rules, ARRAY_LEN(rules), out, err);
}

/* The tool calls of the answer, as the agent got them. */
static int judge_calls(const json_t *response, struct trace_judgement *out, struct err *err) {
    const json_t *choice = json_array_get(json_object_get(response, "choices"), 0);
    const json_t *calls = json_object_get(json_object_get(choice, "message"), "tool_calls");
    bool nameless = false;
    bool invalid = false;
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call) {
        const json_t *function = json_object_get(call, "function");
        const char *text = json_string_value(json_object_get(function, "arguments"));
        AUTO_JSON json_t *arguments = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
        nameless = nameless || json_string_length(json_object_get(call, "id")) == 0 ||
                   json_string_length(json_object_get(function, "name")) == 0;
        invalid = invalid || (text && *text && !json_is_object(arguments));
    }
    const struct rule rules[] = {
        {nameless, "tool_call_no_id"},
        {invalid, "tool_arguments_invalid"},
    };
    return apply(rules, ARRAY_LEN(rules), out, err);
}

static int judge_finish(const struct trace_call *call, struct trace_judgement *out,
                        struct err *err) {
    struct sv finish = head_text(call->result, "finish_reason");
    const struct rule rules[] = {
        {sv_eq(finish, SV("length")), "truncated_turn"},
        {sv_eq(finish, SV("abort")) || sv_eq(finish, SV("error")), "engine_abort"},
        {sv_eq(finish, SV("content_filter")), "content_filtered"},
    };
    return apply(rules, ARRAY_LEN(rules), out, err);
}

static bool has_fatal(const struct trace_judgement *j) {
    size_t i;
    json_t *one;
    json_array_foreach(j->findings, i, one) {
        const char *code = json_string_value(one);
        if (!code || finding_is_fatal(code)) {
            return true;
        }
    }
    return false;
}

int judge_call(void *arg, const struct trace_call *call, struct trace_judgement *judgement,
               struct err *err) {
    static const char *const words[] = {"choices", NULL};
    const struct judge *judge = arg;
    struct tokens t;
    struct pairing p;
    AUTO_JSON json_t *request = request_of(call);
    AUTO_JSON json_t *response = call->response.n > 0 ? json_loose(call->response, words) : NULL;
    tokens_of(call, &t);
    int r = pairing_of(call, response, &p, err);
    r = r < 0 ? r : judge_role(judge, call, request, judgement, err);
    /* Before the tokens, since it says how they are to be counted. */
    r = r < 0 ? r : judge_sampling(judge, call, &t, request, judgement, err);
    r = r < 0 ? r : judge_tokens(call, &t, &p, judgement, err);
    r = r < 0 ? r : judge_calls(response, judgement, err);
    r = r < 0 ? r : judge_finish(call, judgement, err);
    judgement->trainable = strcmp(judgement->role, "agent") == 0 && !has_fatal(judgement);
    return r;
}
