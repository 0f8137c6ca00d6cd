/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/record.h"

#include "base/json.h"
#include "base/utf8.h"
#include "gateway/answer.h"
#include "gateway/evidence.h"

/* The head names the failure; the whole body would only be long. */
#define RECORD_ERROR_MAX 2000u

const char *call_end_name(enum call_end end) {
    static const char *const names[] = {"complete", "client_abort", "upstream_abort", "error"};
    return names[end];
}

/* The bytes stay where they are. */
static void put_part(struct record *r, struct sv name, struct sv bytes) {
    BUG_IF(r->n_parts == JOURNAL_PARTS_MAX);
    r->parts[r->n_parts++] = (struct journal_part){name, bytes};
}

static void put_list(struct record *r, struct sv name, const struct buf *list) {
    put_part(r, name, list->len > 0 ? buf_sv(list) : SV("[]"));
}

static void put_value(struct record *r, struct sv name, const struct buf *value) {
    if (value->len > 0) {
        put_part(r, name, buf_sv(value));
    }
}

static int put_parts(struct record *r, const struct capture *k, struct sv answer) {
    static const struct capture_choice none;
    const struct capture_choice *choice = k->n_choices > 0 ? &k->choices[0] : &none;
    size_t n_ids;
    const struct buf *ids = capture_ids(choice, &n_ids);
    int rc = 0;
    if (k->n_choices > 0) {
        rc = answer.n > 0 ? buf_add_sv(&r->response, answer) : answer_put(k, &r->response);
        put_part(r, SV("response"), buf_sv(&r->response));
        put_list(r, SV("logprobs"), &choice->rows);
        put_list(r, SV("completion_tokens"), &choice->tokens);
        put_list(r, SV("completion_token_ids"), ids);
        put_list(r, SV("per_token_logps"), &choice->logps);
    }
    put_value(r, SV("prompt_token_ids"), &k->prompt_ids);
    put_value(r, SV("usage"), &k->usage);
    return rc;
}

static int put_error(struct buf *head, const struct record_facts *f) {
    int rc = f->upstream_status ? buf_addf(head, ",\"upstream_status\":%d", f->upstream_status) : 0;
    if (rc < 0 || f->upstream_error.n == 0) {
        return rc;
    }
    struct sv text = f->upstream_error;
    text.n = text.n > RECORD_ERROR_MAX ? RECORD_ERROR_MAX : text.n;
    rc = buf_adds(head, ",\"upstream_error\":");
    return rc < 0 ? rc : json_quote(text, head);
}

static int put_named(struct buf *head, const char *name, struct sv json) {
    if (json.n == 0) {
        return 0;
    }
    int rc = buf_addf(head, ",\"%s\":", name);
    return rc < 0 ? rc : buf_add_sv(head, json);
}

static int put_head(struct record *r, const struct capture *k, const struct record_facts *f) {
    struct buf *head = &r->head;
    int rc = buf_addf(head, "{\"status\":%d,\"end\":\"%s\",\"latency_s\":%.6f", f->status,
                      call_end_name(f->end), f->latency_s);
    if (rc == 0 && f->ttft_s >= 0) {
        rc = buf_addf(head, ",\"ttft_s\":%.6f", f->ttft_s);
    }
    if (rc == 0 && k->n_choices > 0) {
        rc = put_named(head, "finish_reason", buf_sv(&k->choices[0].finish_reason));
    }
    rc = rc < 0 ? rc : put_error(head, f);
    if (rc == 0 && f->engine) {
        rc = buf_addf(head, ",\"engine\":\"%s\"", f->engine);
    }
    unsigned absent = f->tail_open ? 0 : evidence_absent(k, f);
    if (rc == 0 && absent) {
        bool both = absent & ASK_ANY_IDS && absent & ASK_ANY_LOGPROBS;
        rc = buf_addf(head, ",\"asked_but_absent\":[%s%s%s]",
                      absent & ASK_ANY_IDS ? "\"token_ids\"" : "", both ? "," : "",
                      absent & ASK_ANY_LOGPROBS ? "\"logprobs\"" : "");
    }
    rc = rc < 0 ? rc : put_named(head, "model", buf_sv(&k->model));
    struct sv policy = k->weight_version.len > 0 ? buf_sv(&k->weight_version) : f->policy_version;
    rc = rc < 0 ? rc : put_named(head, "policy_version", policy);
    if (rc == 0 && f->tail_open) {
        rc = buf_adds(head, ",\"tail_open\":true");
    }
    rc = rc < 0 ? rc : buf_adds(head, ",\"findings\":[");
    if (rc == 0 && !f->tail_open) { /* The tail may still bring what seems to be absent. */
        rc = evidence_put(k, f, head);
    }
    return rc < 0 ? rc : buf_adds(head, "]}");
}

int record_build(struct record *r, const struct capture *k, const struct record_facts *f,
                 struct sv answer) {
    buf_reset(&r->head);
    buf_reset(&r->response);
    r->n_parts = 0;
    int rc = put_parts(r, k, answer);
    return rc < 0 ? rc : put_head(r, k, f);
}

void record_deinit(struct record *r) {
    buf_deinit(&r->head);
    buf_deinit(&r->response);
}
