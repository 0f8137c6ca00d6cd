/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace_load.h"

#include <string.h>

#include "base/json.h"
#include "base/json_valid.h"
#include "journal/splices.h"

static const char *const names[TRACE_VALUES] = {
    "agent_body",           "sent_body",       "response",         "logprobs", "completion_tokens",
    "completion_token_ids", "per_token_logps", "prompt_token_ids", "usage",    "splices"};

void trace_loaded_deinit(struct trace_loaded *l) {
    for (int i = 0; i < TRACE_VALUES; i++) {
        buf_deinit(&l->values[i]);
    }
    buf_deinit(&l->intent);
    buf_deinit(&l->result);
    buf_deinit(&l->tail);
    json_decref(l->findings);
    l->findings = NULL;
}

int trace_add_finding(json_t *findings, const char *code) {
    size_t i;
    const json_t *have;
    json_array_foreach(findings, i, have) {
        if (strcmp(json_string_value(have), code) == 0) {
            return 0;
        }
    }
    return json_array_append_new(findings, json_string(code)) < 0 ? ERR_NOMEM : 0;
}

/* JSON's null says the same as nothing. */
static bool is_null(struct sv v) {
    while (v.n > 0 && strchr(" \t\r\n", v.p[0])) {
        v = sv_cut(v, 1);
    }
    return v.n == 0 || sv_starts_with(v, SV("null"));
}

static int take_part(struct trace_loaded *l, const struct journal_part *part) {
    for (int i = 0; i < TRACE_VALUES; i++) {
        if (!sv_eq(part->name, sv_from(names[i]))) {
            continue;
        }
        buf_reset(&l->values[i]);
        if (!json_valid(part->bytes)) {
            return trace_add_finding(l->findings, "part_invalid");
        }
        return is_null(part->bytes) ? 0 : buf_add_sv(&l->values[i], part->bytes);
    }
    return 0; /* A part of a later version, or a raw answer kept. */
}

static int take_record(struct journal_reader *r, struct journal_place place, struct buf *head,
                       struct trace_loaded *l, struct err *err) {
    struct journal_record record;
    int code = journal_reader_at(r, place, &record, err);
    if (code == ERR_CORRUPT) {
        return trace_add_finding(l->findings, "record_damaged");
    }
    if (code < 0) {
        return code;
    }
    l->time = record.time;
    if (record.head.n > 0 && record.head.p[0] == '{' && json_valid(record.head)) {
        code = buf_add_sv(head, record.head);
    } else {
        code = trace_add_finding(l->findings, "head_invalid");
    }
    for (unsigned i = 0; i < record.n_parts && code == 0; i++) {
        code = take_part(l, &record.parts[i]);
    }
    return code < 0 ? err_set(err, code, "out of memory") : 0;
}

/* Adds the codes that the gateway wrote into a head. */
static int take_findings(struct trace_loaded *l, const struct buf *head) {
    AUTO_JSON json_t *list = NULL;
    struct sv raw = json_raw_get(buf_sv(head), "findings");
    size_t i;
    const json_t *code;
    int r = 0;
    if (raw.n == 0 || json_parse(raw, "findings", &list, NULL) < 0) {
        return 0;
    }
    json_array_foreach(list, i, code) {
        if (json_is_string(code) && r == 0) {
            r = trace_add_finding(l->findings, json_string_value(code));
        }
    }
    return r;
}

static int note_what_is_missing(struct trace_loaded *l, const struct trace_entry *e) {
    int r = e->has_intent ? 0 : trace_add_finding(l->findings, "intent_missing");
    bool tail_open = sv_eq(json_raw_get(buf_sv(&l->result), "tail_open"), SV("true"));
    if (r == 0 && tail_open && !e->has_tail) {
        r = trace_add_finding(l->findings, "tail_missing");
    }
    return r;
}

/* What went to the engine, from what the agent sent. */
static int rebuild_sent_body(struct trace_loaded *l) {
    const struct buf *splices = &l->values[TRACE_SPLICES];
    const struct buf *agent = &l->values[TRACE_AGENT_BODY];
    struct buf *sent = &l->values[TRACE_SENT_BODY];
    if (splices->len == 0 || agent->len == 0 || sent->len > 0) {
        return 0;
    }
    int r = splices_apply(buf_sv(agent), buf_sv(splices), sent);
    if (r == ERR_NOMEM || (r == 0 && json_valid(buf_sv(sent)))) {
        return r;
    }
    buf_reset(sent);
    return trace_add_finding(l->findings, "part_invalid");
}

int trace_load(struct journal_reader *r, const struct trace_entry *e, struct trace_loaded *out,
               struct err *err) {
    for (int i = 0; i < TRACE_VALUES; i++) {
        buf_reset(&out->values[i]);
    }
    buf_reset(&out->intent);
    buf_reset(&out->result);
    buf_reset(&out->tail);
    json_decref(out->findings);
    out->findings = json_array();
    int code = out->findings ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    if (code == 0 && e->has_intent) {
        code = take_record(r, e->intent, &out->intent, out, err);
        if (code == 0 && rebuild_sent_body(out) < 0) {
            code = err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    if (code == 0 && e->has_result) {
        code = take_record(r, e->result, &out->result, out, err);
    }
    if (code == 0 && e->has_result && e->has_tail) {
        double time = out->time;
        code = take_record(r, e->tail, &out->tail, out, err);
        out->time = time;
    }
    if (code < 0) {
        return code;
    }
    code = take_findings(out, &out->result);
    code = code < 0 ? code : take_findings(out, &out->tail);
    code = code < 0 ? code : note_what_is_missing(out, e);
    return code < 0 ? err_set(err, code, "out of memory") : 0;
}

static struct sv unless_null(struct sv v) {
    return is_null(v) ? (struct sv){0} : v;
}

struct sv trace_result_field(const struct trace_loaded *l, const char *field) {
    struct sv late = json_raw_get(buf_sv(&l->tail), field);
    return unless_null(late.n > 0 ? late : json_raw_get(buf_sv(&l->result), field));
}

struct sv trace_intent_field(const struct trace_loaded *l, const char *field) {
    return unless_null(json_raw_get(buf_sv(&l->intent), field));
}
