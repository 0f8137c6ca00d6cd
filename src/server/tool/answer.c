/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/tool/answer.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_loose.h"
#include "base/log.h"
#include "base/mem.h"
#include "journal/trace.h"
#include "rollout/result_json.h"
#include "server/tool/tool.h"

#define ENVELOPE_BYTES 65536 /* Around the text: names, an id of the client's. */

static const char *const arrays[] = {"completion_tokens", "completion_token_ids", "per_token_logps",
                                     "prompt_token_ids"};

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

void answer_deinit(struct answer *a) {
    buf_deinit(&a->text);
    buf_deinit(&a->quoted);
}

int answer_add_finding(json_t *result, const char *code, const char *detail, struct err *err) {
    json_t *findings = json_object_get(result, "findings");
    json_t *finding = json_pack("{s:s, s:o}", "code", code, "detail", json_text(sv_from(detail)));
    return finding && json_array_append_new(findings, finding) == 0 ? 0 : no_memory(err);
}

struct prompts {
    const json_t *turns;
    size_t next;
};

/* Trace and result list the same calls in the same order. */
static int add_prompt(void *arg, struct sv line, struct err *err) {
    static const char *const fields[] = {"prompt_token_ids", NULL};
    struct prompts *p = arg;
    AUTO_JSON json_t *record = json_loose(line, fields);
    json_t *turn = json_array_get(p->turns, p->next++);
    json_t *ids = json_object_get(record, "prompt_token_ids");
    AUTO_JSON json_t *none = json_array();
    if (!turn) {
        return 0;
    }
    return json_object_set(turn, "prompt_token_ids", json_is_array(ids) ? ids : none) == 0
               ? 0
               : no_memory(err);
}

static int add_prompts(json_t *result, const char *dir, struct err *err) {
    struct prompts p = {.turns = json_object_get(result, "proxy_turns")};
    if (!dir || json_array_size(p.turns) == 0) {
        return 0;
    }
    struct err unread = {0};
    if (trace_read(dir, add_prompt, &p, &unread) < 0) {
        log_warning("%s", unread.msg); /* Its path is no client's. */
        return answer_add_finding(result, "prompt_ids_unreadable",
                                  "the stored trace cannot be read", err);
    }
    return 0;
}

/* Bytes of a value inside the quoted text. */
static int quoted_size(const json_t *value, size_t *out, struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf quoted = {0};
    if (json_compact(value, &text) < 0 || json_quote(buf_sv(&text), &quoted) < 0) {
        return no_memory(err);
    }
    *out = quoted.len - 2;
    return 0;
}

/* Empties a turn's arrays; *saved grows by what that spares. */
static int empty_arrays(json_t *turn, size_t *saved, struct err *err) {
    for (size_t i = 0; i < ARRAY_LEN(arrays); i++) {
        const json_t *array = json_object_get(turn, arrays[i]);
        size_t size = 0;
        if (json_array_size(array) == 0) {
            continue;
        }
        int r = quoted_size(array, &size, err);
        if (r < 0) {
            return r;
        }
        if (json_object_set_new(turn, arrays[i], json_array()) < 0) {
            return no_memory(err);
        }
        *saved += size - 2;
    }
    return 0;
}

static bool is_agents(const json_t *turn) {
    const char *role = json_string_value(json_object_get(turn, "role"));
    return !role || strcmp(role, "agent") == 0;
}

struct cut {
    size_t arrays; /* Turns whose arrays went, */
    size_t turns;  /* and turns that went whole. */
};

static int cut_arrays(const json_t *turns, size_t excess, struct cut *cut, struct err *err) {
    size_t saved = 0;
    for (int agents = 0; agents <= 1; agents++) {
        size_t i;
        json_t *turn;
        json_array_foreach(turns, i, turn) {
            size_t before = saved;
            if (saved >= excess) {
                return 1;
            }
            if (is_agents(turn) != (agents == 1)) {
                continue;
            }
            int r = empty_arrays(turn, &saved, err);
            if (r < 0) {
                return r;
            }
            cut->arrays += saved > before;
        }
    }
    return saved >= excess;
}

static int cut_turns(json_t *turns, size_t excess, struct cut *cut, struct err *err) {
    size_t saved = 0;
    while (saved < excess && json_array_size(turns) > 0) {
        size_t size = 0;
        int r = quoted_size(json_array_get(turns, 0), &size, err);
        if (r < 0) {
            return r;
        }
        saved += size + 1;
        (void)json_array_remove(turns, 0); /* It is there. */
        cut->turns++;
    }
    return 0;
}

static int tell_cut(json_t *result, const struct cut *cut, struct err *err) {
    const char *run = json_string_value(json_object_get(result, "run"));
    const char *rollout = json_string_value(json_object_get(result, "rollout"));
    AUTO_FREE char *detail = mem_printf(
        "the answer was too large: token arrays of %zu turns and %zu whole turns are left out; all "
        "of it is stored as %s/%s",
        cut->arrays, cut->turns, run ? run : "?", rollout ? rollout : "?");
    return detail ? answer_add_finding(result, "answer_cut", detail, err) : no_memory(err);
}

static int render(const json_t *result, struct answer *out, struct err *err) {
    buf_reset(&out->text);
    buf_reset(&out->quoted);
    return json_compact(result, &out->text) < 0 || json_quote(buf_sv(&out->text), &out->quoted) < 0
               ? no_memory(err)
               : 0;
}

static int shrink(json_t *result, size_t most, struct answer *out, struct err *err) {
    json_t *turns = json_object_get(result, "proxy_turns");
    struct cut cut = {0};
    size_t excess = out->quoted.len + 1024 - most; /* The finding has to fit too. */
    int enough = cut_arrays(turns, excess, &cut, err);
    if (enough == 0) {
        enough = render(result, out, err);
        enough = enough < 0 || out->quoted.len + 1024 <= most
                     ? enough
                     : cut_turns(turns, out->quoted.len + 1024 - most, &cut, err);
    }
    int r = enough < 0 ? enough : tell_cut(result, &cut, err);
    return r < 0 ? r : render(result, out, err);
}

int answer_make(json_t *result, const struct answer_options *o, struct answer *out,
                struct err *err) {
    size_t whole = o->bytes_max ? o->bytes_max : TOOL_ANSWER_MAX;
    size_t most = (whole - ENVELOPE_BYTES) / 2;
    int r = o->include_prompt_ids ? add_prompts(result, o->dir, err) : 0;
    r = r < 0 ? r : render(result, out, err);
    return r < 0 || out->quoted.len <= most ? r : shrink(result, most, out, err);
}

json_t *answer_without_result(const struct answer_known *k, const struct err *why) {
    AUTO_JSON json_t *reference =
        json_pack("{s:s, s:s, s:n, s:n, s:f, s:s, s:[], s:[], s:[], s:{}, s:[], s:s, s:s, s:o}",
                  "task_id", k->task_id, "sandbox_id", "", "reward", "agent_exit_code", "wall_s",
                  clock_unix() - k->started, "mode", k->mode, "setup_results", "verify_results",
                  "proxy_turns", "files", "files_extra", "agent_log_tail", "", "proxy_log_tail", "",
                  "error", json_text(sv_from(why->msg)));
    AUTO_JSON json_t *own = json_pack(
        "{s:s, s:s, s:s, s:{}, s:n, s:{}, s:[], s:s, s:s, s:s, s:i, s:s, s:s, s:n, s:s, s:f, s:f, "
        "s:i, s:i}",
        "schema", RESULT_SCHEMA, "status", "failed", "cause", "internal", "phases", "capture_level",
        "isolation", "findings", "run", k->run, "rollout", k->rollout, "group", k->rollout,
        "attempt", 1, "backend", k->backend, "agent", k->agent, "agent_version", "model", k->model,
        "started", k->started, "agent_ran_s", 0.0, "calls", 0, "completion_tokens", 0);
    if (!reference || !own || json_object_update(reference, own) < 0) {
        return NULL;
    }
    return TAKE(reference);
}
