/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_scene.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define RAW_MAX (64u * 1024 * 1024) /* The greatest body anybody here accepts. */

static const char *const scene_fields[] = {
    "note",        "when",        "times",          "reply",          "finish_reason",
    "usage",       "delay_ms",    "event_delay_ms", "usage_delay_ms", "tokens_per_event",
    "bad_logprob", "no_ids_from", "late_ids",       "wire",           "fault",
    NULL};
static const char *const when_fields[] = {"call", "user_has", "body_has", "tool", "tools", NULL};
static const char *const reply_fields[] = {"text", "words", "reasoning", "tool_calls", NULL};
static const char *const call_fields[] = {"name", "arguments", NULL};
static const char *const wire_fields[] = {"split", "crlf", "pings", NULL};
static const char *const fault_fields[] = {"kind", "after_events", "status", "headers",
                                           "body", "file",         NULL};
static const char *const fault_names[] = {
    "none",    "status",        "reset",           "eof",  "cut", "hang", "error_event",
    "no_done", "no_blank_line", "open_after_done", "json", "raw", NULL};
static const char *const usage_names[] = {"asked", "always", "never", "continuous", NULL};

static int word_index(struct json_at at, const char *field, const char *word,
                      const char *const *words, struct err *err) {
    for (int i = 0; words[i]; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    const char *near = json_nearest(word, words);
    return err_set(err, ERR_INPUT, "%s: %s: '%s' is not known%s%s%s", at.where, field, word,
                   near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

static int parse_when(struct json_at at, struct scene *c, struct err *err) {
    bool tools = false;
    int r = json_check_fields(at, when_fields, err);
    r = r < 0 ? r : json_get_int(at, "call", &c->call, err);
    r = r < 0 ? r : json_get_string(at, "user_has", &c->user_has, err);
    r = r < 0 ? r : json_get_string(at, "body_has", &c->body_has, err);
    r = r < 0 ? r : json_get_string(at, "tool", &c->tool, err);
    r = r < 0 ? r : json_get_bool(at, "tools", &tools, err);
    if (r == 0 && json_object_get(at.object, "tools")) {
        c->tools = tools;
    }
    return r;
}

/* {"name": ..., "arguments": object or string} as a message carries it. */
static int add_call(struct json_at at, json_t *calls, struct err *err) {
    const char *name = NULL;
    int r = json_check_fields(at, call_fields, err);
    r = r < 0 ? r : json_get_string(at, "name", &name, err);
    if (r < 0) {
        return r;
    }
    if (!name) {
        return err_set(err, ERR_INPUT, "%s: a tool call needs a name", at.where);
    }
    const json_t *arguments = json_object_get(at.object, "arguments");
    AUTO_BUF struct buf text = {0};
    r = json_is_string(arguments) ? buf_adds(&text, json_string_value(arguments))
                                  : json_compact(arguments ? arguments : json_null(), &text);
    json_t *call = r < 0 ? NULL
                         : json_pack("{s:{s:s, s:s%}}", "function", "name", name, "arguments",
                                     buf_cstr(&text), text.len);
    return json_array_append_new(calls, call) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static int parse_calls(struct json_at at, json_t *message, struct err *err) {
    const json_t *calls = NULL;
    int r = json_get_array(at, "tool_calls", &calls, err);
    if (r < 0 || json_array_size(calls) == 0) {
        return r;
    }
    json_t *out = json_array();
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call) {
        r = r < 0 ? r : add_call((struct json_at){call, at.where}, out, err);
    }
    json_object_set_new(message, "tool_calls", out);
    return r;
}

/* Bulk text: this many words, all different enough to be told apart. */
static int add_words(long long n, struct buf *out) {
    int r = 0;
    for (long long i = 0; i < n && r == 0; i++) {
        r = buf_addf(out, "%sword%lld", i ? " " : "", i);
    }
    return r;
}

static int parse_reply(struct json_at at, struct scene *c, struct err *err) {
    const char *text = NULL;
    const char *reasoning = NULL;
    long long words = 0;
    int r = json_check_fields(at, reply_fields, err);
    r = r < 0 ? r : json_get_string(at, "text", &text, err);
    r = r < 0 ? r : json_get_string(at, "reasoning", &reasoning, err);
    r = r < 0 ? r : json_get_int(at, "words", &words, err);
    r = r < 0 ? r : parse_calls(at, c->message, err);
    if (r < 0) {
        return r;
    }
    AUTO_BUF struct buf all = {0};
    r = text ? buf_adds(&all, text) : 0;
    r = r < 0 ? r : add_words(words, &all);
    if (r < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    json_object_set_new(c->message, "content", json_text(buf_sv(&all)));
    if (reasoning) {
        json_object_set_new(c->message, "reasoning", json_string(reasoning));
    }
    return 0;
}

static int parse_fault(struct json_at at, const char *folder, struct fault *f, struct err *err) {
    const char *kind = "none";
    const char *file = NULL;
    int r = json_check_fields(at, fault_fields, err);
    r = r < 0 ? r : json_get_string(at, "kind", &kind, err);
    r = r < 0 ? r : json_get_int(at, "after_events", &f->after_events, err);
    r = r < 0 ? r : json_get_int(at, "status", &f->status, err);
    r = r < 0 ? r : json_get_object(at, "headers", &f->headers, err);
    r = r < 0 ? r : json_get_string(at, "file", &file, err);
    r = r < 0 ? r : word_index(at, "kind", kind, fault_names, err);
    if (r < 0) {
        return r;
    }
    f->kind = (enum fault_kind)r;
    f->body = json_object_get(at.object, "body");
    if (f->kind != FAULT_RAW) {
        return 0;
    }
    AUTO_FREE char *path = file ? file_join(folder, file) : NULL;
    AUTO_BUF struct buf raw = {0};
    if (!path) {
        return err_set(err, ERR_INPUT, "%s: a raw fault needs a file", at.where);
    }
    r = file_read(path, RAW_MAX, &raw, err);
    f->raw_n = raw.len;
    f->raw = r < 0 ? NULL : buf_take(&raw);
    return r;
}

static int parse_wire(struct json_at at, struct scene *c, struct err *err) {
    int r = json_check_fields(at, wire_fields, err);
    r = r < 0 ? r : json_get_int(at, "split", &c->split, err);
    r = r < 0 ? r : json_get_bool(at, "crlf", &c->crlf, err);
    return r < 0 ? r : json_get_bool(at, "pings", &c->pings, err);
}

static int parse_usage(struct json_at at, struct scene *c, struct err *err) {
    const char *word = "asked";
    if (json_is_object(json_object_get(at.object, "usage"))) {
        return json_get_object(at, "usage", &c->usage_edits, err);
    }
    int r = json_get_string(at, "usage", &word, err);
    r = r < 0 ? r : word_index(at, "usage", word, usage_names, err);
    c->usage = r < 0 ? c->usage : (enum usage_when)r;
    return r < 0 ? r : 0;
}

static int parse_pace(struct json_at at, struct scene *c, struct err *err) {
    int r = json_get_int(at, "times", &c->times, err);
    r = r < 0 ? r : json_get_int(at, "delay_ms", &c->delay_ms, err);
    r = r < 0 ? r : json_get_int(at, "event_delay_ms", &c->event_delay_ms, err);
    r = r < 0 ? r : json_get_int(at, "usage_delay_ms", &c->usage_delay_ms, err);
    r = r < 0 ? r : json_get_int(at, "tokens_per_event", &c->tokens_per_event, err);
    r = r < 0 ? r : json_get_string(at, "bad_logprob", &c->bad_logprob, err);
    r = r < 0 ? r : json_get_int(at, "no_ids_from", &c->no_ids_from, err);
    r = r < 0 ? r : json_get_bool(at, "late_ids", &c->late_ids, err);
    r = r < 0 ? r : json_get_string(at, "finish_reason", &c->finish_reason, err);
    c->finish_is_null = json_is_null(json_object_get(at.object, "finish_reason"));
    return r;
}

/* The named object under the scene, or one without fields. */
static struct json_at under(struct json_at at, const char *field, struct err *err, int *r) {
    const json_t *object = NULL;
    *r = *r < 0 ? *r : json_get_object(at, field, &object, err);
    return (struct json_at){object, at.where};
}

int scene_parse(struct json_at at, const char *folder, struct scene *out, struct err *err) {
    *out = (struct scene){.tools = -1, .tokens_per_event = 1, .no_ids_from = -1};
    out->message = json_pack("{s:s, s:s}", "role", "assistant", "content",
                             "This answer comes from a script, not from a model.");
    if (!out->message) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!at.object) {
        return 0;
    }
    if (!json_is_object(at.object)) {
        return err_set(err, ERR_INPUT, "%s: want an object, got %s", at.where,
                       json_kind(at.object));
    }
    int r = json_check_fields(at, scene_fields, err);
    struct json_at when = under(at, "when", err, &r);
    struct json_at reply = under(at, "reply", err, &r);
    struct json_at wire = under(at, "wire", err, &r);
    struct json_at fault = under(at, "fault", err, &r);
    r = r < 0 || !when.object ? r : parse_when(when, out, err);
    r = r < 0 || !reply.object ? r : parse_reply(reply, out, err);
    r = r < 0 || !wire.object ? r : parse_wire(wire, out, err);
    r = r < 0 || !fault.object ? r : parse_fault(fault, folder, &out->fault, err);
    r = r < 0 ? r : parse_usage(at, out, err);
    r = r < 0 ? r : parse_pace(at, out, err);
    if (r == 0 && out->tokens_per_event < 1) {
        return err_set(err, ERR_INPUT, "%s: tokens_per_event: want at least 1", at.where);
    }
    return r;
}

void scene_deinit(struct scene *c) {
    json_decref(c->message);
    free(c->fault.raw);
    *c = (struct scene){0};
}
