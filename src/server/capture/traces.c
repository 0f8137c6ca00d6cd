/* SPDX-License-Identifier: BSD-3-Clause */
/* What was recorded of a session: as trace.jsonl, and as the entries that trainers read. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "journal/trace.h"
#include "server/capture/server.h"

static int read_trace(struct capture *c, struct sv id, struct buf *lines, struct err *err) {
    struct managed *m = sessions_use(c, id);
    if (!m) {
        return err_set(err, ERR_NOT_FOUND, "unknown session");
    }
    const struct trace_source from = {
        .journal_dir = c->o->journal_dir,
        .session = m->name,
        .judge = judge_call,
        .arg = &c->judge,
        .journal = m->is_restored ? NULL : c->journal,
        .since = gateway_session_began(m->session),
    };
    int rc = trace_to_buf(&from, lines, NULL, err);
    sessions_unuse(c, m);
    return rc;
}

int traces_lines(struct capture *c, struct sv id, struct reply *out, struct err *err) {
    int rc = read_trace(c, id, &out->body, err);
    out->status = 200;
    out->type = "application/jsonl";
    return rc;
}

/* Every token has its log-probability, and there is one. */
static bool is_usable(const json_t *turn) {
    const json_t *ids = json_object_get(turn, "completion_token_ids");
    const json_t *logps = json_object_get(turn, "per_token_logps");
    const char *role = json_string_value(json_object_get(turn, "role"));
    size_t i;
    const json_t *one;
    json_array_foreach(logps, i, one) {
        if (!json_is_number(one)) {
            return false;
        }
    }
    return role && strcmp(role, "agent") == 0 && json_array_size(ids) > 0 &&
           json_array_size(ids) == json_array_size(logps) &&
           json_array_size(json_object_get(turn, "prompt_token_ids")) > 0;
}

static json_t *loss_mask(const json_t *turn) {
    json_t *mask = json_array();
    size_t prompt = json_array_size(json_object_get(turn, "prompt_token_ids"));
    size_t all = prompt + json_array_size(json_object_get(turn, "completion_token_ids"));
    int rc = mask ? 0 : -1;
    for (size_t i = 0; i < all && rc == 0; i++) {
        rc = json_array_append_new(mask, json_integer(i >= prompt));
    }
    if (rc < 0) {
        json_decref(mask);
        return NULL;
    }
    return mask;
}

static json_t *entry_of(const json_t *turn) {
    json_t *request = json_object_get(turn, "request");
    return json_pack("{s:{s:O?, s:O?}, s:{s:O?}, s:O, s:O, s:O, s:O, s:o, s:{s:O, s:O?}}",
                     "request", "messages", json_object_get(request, "messages"), "tools",
                     json_object_get(request, "tools"), "response", "choices",
                     json_object_get(json_object_get(turn, "response"), "choices"),
                     "completion_token_ids", json_object_get(turn, "completion_token_ids"),
                     "completion_tokens", json_object_get(turn, "completion_tokens"),
                     "per_token_logps", json_object_get(turn, "per_token_logps"),
                     "prompt_token_ids", json_object_get(turn, "prompt_token_ids"), "loss_mask",
                     loss_mask(turn), "metadata", "turn", json_object_get(turn, "turn"),
                     "sampling_params", json_object_get(json_object_get(turn, "sampling"), "sent"));
}

static int add_entry(json_t *entries, struct sv line, struct err *err) {
    AUTO_JSON json_t *turn = NULL;
    int rc = json_parse(line, "trace", &turn, err);
    if (rc < 0 || !is_usable(turn)) {
        return rc;
    }
    return json_array_append_new(entries, entry_of(turn)) < 0
               ? err_set(err, ERR_NOMEM, "out of memory")
               : 0;
}

int traces_entries(struct capture *c, struct sv id, struct reply *out, struct err *err) {
    AUTO_BUF struct buf lines = {0};
    AUTO_JSON json_t *entries = json_array();
    int rc = entries ? read_trace(c, id, &lines, err) : err_set(err, ERR_NOMEM, "out of memory");
    struct sv rest = buf_sv(&lines);
    while (rc == 0 && rest.n > 0) {
        size_t end = sv_find(rest, SV("\n"));
        end = end == (size_t)-1 ? rest.n : end;
        rc = add_entry(entries, (struct sv){rest.p, end}, err);
        rest = sv_cut(rest, end + 1);
    }
    if (rc < 0) {
        return rc;
    }
    json_t *session = json_text(id);
    return reply_json(
        out, 200, json_pack("{s:o, s:o}", "session_id", session, "entries", TAKE(entries)), err);
}
