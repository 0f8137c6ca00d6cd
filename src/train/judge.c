/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/judge.h"

#include <string.h>

#include "base/json.h"
#include "train/tokens.h"

static struct sv head_text(const json_t *head, const char *field) {
    return sv_from(json_string_value(json_object_get(head, field)));
}

static bool has(const struct trace_judgement *j, const char *code) {
    size_t i;
    json_t *one;
    json_array_foreach(j->findings, i, one) {
        if (strcmp(json_string_value(one), code) == 0) {
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

static enum agent_call kind_of(const struct judge *judge, const struct trace_call *call) {
    if (!judge->agent || !judge->agent->classify) {
        return AGENT_CALL_MAIN;
    }
    struct sv text = call->agent_request.n > 0 ? call->agent_request : call->request;
    AUTO_JSON json_t *request = json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL);
    if (!request) {
        return AGENT_CALL_MAIN; /* Bytes that only the engine understood are still the agent's. */
    }
    return judge->agent->classify(request, head_text(call->intent, "agent_session"),
                                  head_text(call->intent, "agent_parent"));
}

/* Answers whose end the agent did not wait for led to nothing: it asked again, or was stopped. */
static bool was_abandoned(const struct trace_call *call) {
    return sv_eq(head_text(call->result, "end"), SV("client_abort")) &&
           head_text(call->result, "finish_reason").n == 0;
}

static int judge_role(const struct judge *judge, const struct trace_call *call,
                      struct trace_judgement *out, struct err *err) {
    enum agent_call kind = kind_of(judge, call);
    out->role = kind == AGENT_CALL_TITLE || kind == AGENT_CALL_SUMMARY ? "auxiliary" : "agent";
    if (was_abandoned(call)) {
        out->role = "discarded";
        return find(out, "abandoned", err);
    }
    return kind == AGENT_CALL_SUBAGENT ? find(out, "subagent", err) : 0;
}

/* What was recorded is not all that the engine said. */
static bool is_evidence_partial(const struct trace_judgement *j) {
    static const char *const codes[] = {"capture_limit",   "encoded_answer",       "head_invalid",
                                        "part_invalid",    "record_damaged",       "tail_missing",
                                        "unparsed_events", "upstream_error_event", "zero_logprobs"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (has(j, codes[i])) {
            return true;
        }
    }
    return false;
}

/* One row a rule: a call that breaks any of them is not trainable, and the code says why. */
static int judge_tokens(const struct judge *judge, const struct trace_call *call,
                        struct trace_judgement *out, struct err *err) {
    struct tokens t;
    tokens_of(call, &t);
    const json_t *sent = json_object_get(json_object_get(call->intent, "sampling"), "sent");
    bool complete = sv_eq(head_text(call->result, "end"), SV("complete"));
    const struct {
        bool broken;
        const char *code;
    } rules[] = {
        {!complete, "not_complete"},
        {complete && t.prompt_ids == 0, "no_prompt_ids"},
        {complete && t.ids == 0, "no_sampled_ids"},
        {complete && t.logps == 0, "no_logprobs"},
        {t.bad_ids, "bad_token_id"},
        {t.ids > 0 && t.logps > 0 && t.ids != t.logps, "logprob_misalign"},
        {t.null_logp, "null_logprob"},
        {t.positive_logp, "positive_logprob"},
        {t.ids > 0 && t.usage_ids >= 0 && (long long)t.ids != t.usage_ids, "usage_mismatch"},
        {t.logps > 0 && !judge->logprobs_processed && !sampling_is_neutral(sent), "raw_logprobs"},
    };
    out->trainable = strcmp(out->role, "agent") == 0 && !is_evidence_partial(out);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].broken) {
            out->trainable = 0;
            int r = find(out, rules[i].code, err);
            if (r < 0) {
                return r;
            }
        }
    }
    return sv_eq(head_text(call->result, "finish_reason"), SV("length"))
               ? find(out, "truncated_turn", err)
               : 0;
}

int judge_call(void *arg, const struct trace_call *call, struct trace_judgement *judgement,
               struct err *err) {
    const struct judge *judge = arg;
    int r = judge_role(judge, call, judgement, err);
    return r < 0 ? r : judge_tokens(judge, call, judgement, err);
}
