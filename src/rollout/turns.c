/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/turns.h"

#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/json_loose.h"

int turns_init(struct turns *t, struct err *err) {
    *t = (struct turns){.list = json_array(), .findings = json_object()};
    return t->list && t->findings ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

void turns_deinit(struct turns *t) {
    json_decref(t->list);
    json_decref(t->findings);
    buf_deinit(&t->log);
    *t = (struct turns){0};
}

/* The field's value, or a null, for a reference that json_pack takes. */
static json_t *copy(const json_t *record, const char *field) {
    json_t *value = json_object_get(record, field);
    return value ? json_incref(value) : json_null();
}

static bool is_id(const json_t *value) {
    return json_is_integer(value);
}

static bool is_text(const json_t *value) {
    return json_is_string(value);
}

static bool is_number(const json_t *value) {
    return json_is_number(value);
}

/* The list without what is not of its kind, as the reference's reader takes it: what is missing is
 * left out, and the turn's findings say so. */
static json_t *list_of(const json_t *record, const char *field, bool (*fits)(const json_t *)) {
    json_t *out = json_array();
    const json_t *from = json_object_get(record, field);
    size_t i;
    json_t *value;
    json_array_foreach(from, i, value) {
        if (fits(value) && json_array_append(out, value) < 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

static double number_of(const json_t *record, const char *field) {
    return json_number_value(json_object_get(record, field));
}

static const char *text_of(const json_t *record, const char *field, const char *otherwise) {
    const char *text = json_string_value(json_object_get(record, field));
    return text ? text : otherwise;
}

/* upstream_status and upstream_error stand in the record, or in its response as in the
 * reference's. */
static json_t *upstream(const json_t *record, const char *field) {
    json_t *value = json_object_get(record, field);
    if (!value) {
        value = json_object_get(json_object_get(record, "response"), field);
    }
    return value ? json_incref(value) : json_null();
}

static json_t *turn_of(const json_t *r) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o, s:o, s:o, s:o, s:I}", "turn",
                     copy(r, "turn"), "finish_reason", copy(r, "finish_reason"),
                     "completion_tokens", list_of(r, "completion_tokens", is_text),
                     "completion_token_ids", list_of(r, "completion_token_ids", is_id),
                     "per_token_logps", list_of(r, "per_token_logps", is_number), "latency_s",
                     number_of(r, "latency_s"), "timestamp", number_of(r, "timestamp"),
                     "upstream_status", upstream(r, "upstream_status"), "upstream_error",
                     upstream(r, "upstream_error"), "role", copy(r, "role"), "trainable",
                     copy(r, "trainable"), "n_prompt",
                     (json_int_t)json_array_size(json_object_get(r, "prompt_token_ids")));
}

static long long tokens_in(const json_t *r) {
    const json_t *said = json_object_get(json_object_get(r, "usage"), "completion_tokens");
    return json_is_integer(said)
               ? json_integer_value(said)
               : (long long)json_array_size(json_object_get(r, "completion_token_ids"));
}

static int log_line(struct turns *t, const json_t *r) {
    char when[32] = "";
    time_t seconds = (time_t)number_of(r, "timestamp");
    struct tm utc;
    if (gmtime_r(&seconds, &utc)) {
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    int code = buf_addf(
        &t->log, "%s call %lld %s %lld %s: %lld tokens, %s, %.3f s", when,
        (long long)json_integer_value(json_object_get(r, "turn")), text_of(r, "model", "?"),
        (long long)json_integer_value(json_object_get(r, "status")), text_of(r, "end", "?"),
        tokens_in(r), text_of(r, "finish_reason", "no finish reason"), number_of(r, "latency_s"));
    const char *why = text_of(r, "upstream_error", NULL);
    if (code >= 0 && why) {
        size_t line = strcspn(why, "\r\n");
        code = buf_addf(&t->log, ": %.*s", (int)(line < 200 ? line : 200), why);
    }
    return code < 0 ? code : buf_addc(&t->log, '\n');
}

static int count_findings(struct turns *t, const json_t *record) {
    const json_t *codes = json_object_get(record, "findings");
    size_t i;
    json_t *code;
    json_array_foreach(codes, i, code) {
        const char *name = json_string_value(code);
        json_int_t n = json_integer_value(json_object_get(t->findings, name ? name : ""));
        if (name && json_object_set_new(t->findings, name, json_integer(n + 1)) < 0) {
            return ERR_NOMEM;
        }
    }
    return 0;
}

static void count_capture(struct turns *t, const json_t *record) {
    if (strcmp(text_of(record, "role", "agent"), "agent") != 0 ||
        strcmp(text_of(record, "end", ""), "complete") != 0) {
        return;
    }
    size_t ids = json_array_size(json_object_get(record, "completion_token_ids"));
    size_t logps = json_array_size(json_object_get(record, "per_token_logps"));
    bool has_prompt = json_array_size(json_object_get(record, "prompt_token_ids")) > 0;
    t->calls++;
    t->with_ids += has_prompt && ids > 0 && ids == logps;
    t->with_logps += logps > 0;
}

/* All that is looked at here. `request` and `response` are the agent's and the engine's own words.
 */
static const char *const fields[] = {"turn",
                                     "status",
                                     "end",
                                     "finish_reason",
                                     "latency_s",
                                     "timestamp",
                                     "role",
                                     "trainable",
                                     "findings",
                                     "model",
                                     "usage",
                                     "completion_tokens",
                                     "per_token_logps",
                                     "prompt_token_ids",
                                     "completion_token_ids",
                                     "upstream_status",
                                     "upstream_error",
                                     "response",
                                     NULL};

int turns_add(void *arg, struct sv line, struct err *err) {
    struct turns *t = arg;
    AUTO_JSON json_t *record = json_loose(line, fields);
    if (!record) {
        return err_set(err, ERR_CORRUPT, "a line of the trace is no JSON object");
    }
    json_t *turn = turn_of(record);
    if (!turn || json_array_append_new(t->list, turn) < 0 || log_line(t, record) < 0 ||
        count_findings(t, record) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    t->completion_tokens += tokens_in(record);
    t->trainable += json_is_true(json_object_get(record, "trainable"));
    t->discarded += strcmp(text_of(record, "role", ""), "discarded") == 0;
    count_capture(t, record);
    return 0;
}

const char *turns_level(const struct turns *t) {
    if (t->calls == 0) {
        return NULL;
    }
    return t->with_ids == t->calls ? "tokens" : t->with_logps == t->calls ? "logprobs" : "text";
}
