/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace_line.h"

#include "base/json.h"

/* Appends a valid value in one line: outside of strings, where alone they can stand, line feeds
 * mean no more than blanks. */
static int add_value(struct sv v, struct buf *out) {
    size_t start = out->len;
    int r = buf_add_sv(out, v);
    for (size_t i = start; r == 0 && i < out->len; i++) {
        if (out->data[i] == '\n' || out->data[i] == '\r') {
            out->data[i] = ' ';
        }
    }
    return r;
}

/* A further field, with a raw value or with `absent`. */
static int add_field(const char *name, struct sv v, const char *absent, struct buf *out) {
    int r = buf_addf(out, ", \"%s\": ", name);
    return r < 0 ? r : v.n > 0 ? add_value(v, out) : buf_adds(out, absent);
}

static int add_value_field(const char *name, const struct trace_loaded *l, enum trace_value which,
                           const char *absent, struct buf *out) {
    return add_field(name, buf_sv(&l->values[which]), absent, out);
}

static int add_string_field(const char *name, struct sv text, struct buf *out) {
    int r = buf_addf(out, ", \"%s\": ", name);
    return r < 0 ? r : json_quote(text, out);
}

static struct sv request_of(const struct trace_loaded *l) {
    const struct buf *sent = &l->values[TRACE_SENT_BODY];
    return buf_sv(sent->len > 0 ? sent : &l->values[TRACE_AGENT_BODY]);
}

/* Of a call that the engine did not answer: as the reference writes it. */
static int add_response(const struct trace_loaded *l, struct buf *out) {
    struct sv status = trace_result_field(l, "upstream_status");
    struct sv error = trace_result_field(l, "upstream_error");
    if (l->values[TRACE_RESPONSE].len > 0 || (status.n == 0 && error.n == 0)) {
        return add_value_field("response", l, TRACE_RESPONSE, "null", out);
    }
    int r = buf_adds(out, ", \"response\": {\"choices\": [], \"usage\": null");
    r = r < 0 ? r : add_field("upstream_status", status, "null", out);
    r = r < 0 ? r : add_field("upstream_error", error, "null", out);
    return r < 0 ? r : buf_addc(out, '}');
}

/* The reference's fields, in its order. Lists are never null: its readers take their length. */
static int add_reference(const struct trace_entry *e, const struct trace_loaded *l,
                         struct buf *out) {
    int r = buf_addf(out, "{\"turn\": %llu", (unsigned long long)e->call);
    r = r < 0 ? r : add_field("request", request_of(l), "null", out);
    r = r < 0 ? r : add_response(l, out);
    r = r < 0 ? r : add_value_field("logprobs", l, TRACE_LOGPROBS, "[]", out);
    r = r < 0 ? r : add_value_field("completion_tokens", l, TRACE_COMPLETION_TOKENS, "[]", out);
    r = r < 0 ? r
              : add_value_field("completion_token_ids", l, TRACE_COMPLETION_TOKEN_IDS, "[]", out);
    r = r < 0 ? r : add_value_field("per_token_logps", l, TRACE_PER_TOKEN_LOGPS, "[]", out);
    r = r < 0 ? r : add_field("finish_reason", trace_result_field(l, "finish_reason"), "null", out);
    r = r < 0 ? r : add_field("latency_s", trace_result_field(l, "latency_s"), "null", out);
    return r < 0 ? r : buf_addf(out, ", \"timestamp\": %.6f", l->time);
}

static int add_judgement(const struct trace_judgement *j, struct buf *out) {
    static const char *const words[] = {"null", "false", "true"};
    int r = buf_addf(out, ", \"trainable\": %s, \"findings\": ", words[j->trainable + 1]);
    return r < 0 ? r : json_compact(j->findings, out);
}

static struct sv first_of(struct sv a, struct sv b) {
    return a.n > 0 ? a : b;
}

static int add_ours(const struct trace_source *from, const struct trace_index *x,
                    const struct trace_entry *e, const struct trace_loaded *l,
                    const struct trace_judgement *j, struct buf *out) {
    struct sv end = e->has_result ? trace_result_field(l, "end") : SV("\"open\"");
    struct sv model = first_of(trace_result_field(l, "model"), trace_intent_field(l, "model"));
    struct sv engine =
        first_of(trace_result_field(l, "engine"), trace_index_session(x, e, "engine"));
    struct sv policy = first_of(trace_result_field(l, "policy_version"),
                                trace_index_session(x, e, "policy_version"));
    int r = add_string_field("schema", SV(TRACE_SCHEMA), out);
    r = r < 0 ? r : add_string_field("session", sv_from(from->session), out);
    r = r < 0 ? r : add_field("dialect", trace_intent_field(l, "dialect"), "null", out);
    r = r < 0 ? r : add_value_field("prompt_token_ids", l, TRACE_PROMPT_TOKEN_IDS, "null", out);
    r = r < 0 ? r : add_string_field("role", sv_from(j->role), out);
    r = r < 0 ? r : add_field("parent", (struct sv){0}, "null", out);
    r = r < 0 ? r : add_field("edits", trace_intent_field(l, "edits"), "[]", out);
    r = r < 0 ? r : add_field("sampling", trace_intent_field(l, "sampling"), "null", out);
    r = r < 0 ? r : add_value_field("usage", l, TRACE_USAGE, "null", out);
    r = r < 0 ? r : add_field("status", trace_result_field(l, "status"), "null", out);
    r = r < 0 ? r : add_field("end", end, "\"error\"", out);
    r = r < 0 ? r : add_judgement(j, out);
    r = r < 0 ? r : add_field("ttft_s", trace_result_field(l, "ttft_s"), "null", out);
    r = r < 0 ? r : add_field("engine", engine, "null", out);
    r = r < 0 ? r : add_field("model", model, "null", out);
    r = r < 0 ? r : add_field("policy_version", policy, "null", out);
    r = r < 0 ? r : add_field("agent_session", trace_intent_field(l, "agent_session"), "null", out);
    struct sv upstream_status = trace_result_field(l, "upstream_status");
    struct sv upstream_error = trace_result_field(l, "upstream_error");
    if (r == 0 && upstream_status.n > 0) {
        r = add_field("upstream_status", upstream_status, "", out);
    }
    if (r == 0 && upstream_error.n > 0) {
        r = add_field("upstream_error", upstream_error, "", out);
    }
    return r < 0 ? r : buf_adds(out, "}\n");
}

/* A head as a value; what jansson can't hold (a lone surrogate) counts as nothing. */
static json_t *head_of(const struct buf *head) {
    json_t *value = NULL;
    return head->len > 0 && json_parse(buf_sv(head), "head", &value, NULL) == 0 ? value
                                                                                : json_object();
}

static int judge(const struct trace_source *from, const struct trace_entry *e,
                 const struct trace_loaded *l, struct trace_judgement *j, struct err *err) {
    AUTO_JSON json_t *intent = head_of(&l->intent);
    AUTO_JSON json_t *result = head_of(&l->result);
    AUTO_JSON json_t *tail = head_of(&l->tail);
    if (!intent || !result || !tail || json_object_update(result, tail) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const struct trace_call call = {
        .session = sv_from(from->session),
        .call = e->call,
        .intent = intent,
        .result = result,
        .request = request_of(l),
        .agent_request = buf_sv(&l->values[TRACE_AGENT_BODY]),
        .response = buf_sv(&l->values[TRACE_RESPONSE]),
        .logprobs = buf_sv(&l->values[TRACE_LOGPROBS]),
        .completion_tokens = buf_sv(&l->values[TRACE_COMPLETION_TOKENS]),
        .completion_token_ids = buf_sv(&l->values[TRACE_COMPLETION_TOKEN_IDS]),
        .per_token_logps = buf_sv(&l->values[TRACE_PER_TOKEN_LOGPS]),
        .prompt_token_ids = buf_sv(&l->values[TRACE_PROMPT_TOKEN_IDS]),
        .usage = buf_sv(&l->values[TRACE_USAGE]),
    };
    int r = from->judge(from->arg, &call, j, err);
    BUG_IF(r == 0 && (j->trainable < -1 || j->trainable > 1));
    return r;
}

int trace_add_line(const struct trace_source *from, const struct trace_index *x,
                   const struct trace_entry *e, const struct trace_loaded *l, struct buf *out,
                   struct err *err) {
    struct trace_judgement j = {.role = "agent", .trainable = -1, .findings = l->findings};
    int r = from->judge ? judge(from, e, l, &j, err) : 0;
    if (r < 0) {
        return r;
    }
    r = add_reference(e, l, out);
    r = r < 0 ? r : add_ours(from, x, e, l, &j, out);
    return r < 0 ? err_set(err, r, "no memory for a line of the trace") : 0;
}
