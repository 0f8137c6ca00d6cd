/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages of /ws: {"type", "data"} in both directions, one answer to each. */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/openenv/face.h"

int message_put(struct buf *out, const char *type, struct sv data) {
    int r = buf_addf(out, "{\"type\":\"%s\",\"data\":", type);
    r = r < 0 ? r : buf_add_sv(out, data);
    return r < 0 ? r : buf_addc(out, '}');
}

int message_put_error(struct buf *out, const char *code, const char *text, json_t *more) {
    AUTO_JSON json_t *data =
        json_pack("{s:o, s:s}", "message", json_text(sv_from(text)), "code", code);
    AUTO_BUF struct buf b = {0};
    int r = data && (!more || json_object_update(data, more) == 0) ? 0 : ERR_NOMEM;
    json_decref(more);
    r = r < 0 ? r : json_compact(data, &b);
    return r < 0 ? r : message_put(out, "error", buf_sv(&b));
}

static int put_faults(struct faults *f, struct buf *out) {
    return message_put_error(out, "VALIDATION_ERROR", "Invalid message",
                             json_pack("{s:o}", "errors", faults_take(f)));
}

static const json_t *no_data(void) {
    static json_t *empty; /* Made once, on the loop's only thread. */
    empty = empty ? empty : json_object();
    return empty;
}

static int reset(const struct message_context *c, const json_t *message, struct faults *f,
                 struct buf *out) {
    AUTO_BUF struct buf payload = {0};
    const char *id = NULL;
    const json_t *data =
        json_object_get(message, "data") ? faults_need_object(f, message, "data") : no_data();
    faults_of_reset(f, data, &id);
    if (faults_any(f)) {
        return put_faults(f, out);
    }
    int r = environment_reset(&c->session->environment, sv_from(id));
    r = r < 0 ? r : step_put_reset(&c->session->environment, &payload);
    return r < 0 ? r : message_put(out, "observation", buf_sv(&payload));
}

static int state(const struct message_context *c, struct buf *out) {
    AUTO_JSON json_t *value = environment_state(&c->session->environment);
    AUTO_BUF struct buf text = {0};
    int r = value ? json_compact(value, &text) : ERR_NOMEM;
    return r < 0 ? r : message_put(out, "state", buf_sv(&text));
}

static enum message_fate step(const struct message_context *c, const json_t *message,
                              struct faults *f, struct step **started, struct buf *out, int *r) {
    struct action action = {0};
    const json_t *data = faults_need_object(f, message, "data");
    if (data) {
        action_read(data, f, &action);
    }
    if (faults_any(f)) {
        *r = put_faults(f, out);
        return MESSAGE_ANSWERED;
    }
    const struct step_options o = {
        .loop = c->openenv->options.loop,
        .tools = c->openenv->options.tools,
        .client = c->client,
        .session = c->session,
        .on_done = c->on_step,
        .arg = c->arg,
    };
    step_start(&o, &action, started);
    return MESSAGE_WAITS;
}

static enum message_fate rpc(const struct message_context *c, const json_t *message,
                             struct faults *f, struct buf *out, int *r) {
    const json_t *data = faults_need_object(f, message, "data");
    if (!data) {
        *r = put_faults(f, out);
        return MESSAGE_ANSWERED;
    }
    const struct rpc_sink sink = {.on_answer = c->on_rpc, .arg = c->arg, .client = c->client};
    rpc_feed_json(c->rpc, data, &sink);
    return MESSAGE_WAITS;
}

static int unknown(const json_t *type, struct buf *out) {
    AUTO_BUF struct buf text = {0};
    AUTO_BUF struct buf shown = {0};
    int r = json_is_string(type) ? buf_adds(&shown, json_string_value(type))
            : type               ? json_compact(type, &shown)
                                 : buf_adds(&shown, "None");
    r = r < 0 ? r : buf_addf(&text, "Unknown message type: %s", buf_cstr(&shown));
    return r < 0 ? r : message_put_error(out, "UNKNOWN_TYPE", buf_cstr(&text), NULL);
}

static enum message_fate take_object(const struct message_context *c, const json_t *message,
                                     struct step **started, struct buf *out, int *r) {
    static const char *const with_data[] = {"type", "data", NULL};
    static const char *const without[] = {"type", NULL};
    struct faults f = {0};
    const json_t *type = json_object_get(message, "type");
    struct sv word = json_sv(type);
    enum message_fate fate = MESSAGE_ANSWERED;
    bool is_state = sv_eq(word, SV("state"));
    bool is_bare = is_state || sv_eq(word, SV("close"));
    bool is_mcp = sv_eq(word, SV("mcp"));
    faults_of_extra(&f, message, is_bare ? without : with_data);
    if (sv_eq(word, SV("reset"))) {
        *r = reset(c, message, &f, out);
    } else if (sv_eq(word, SV("step"))) {
        fate = step(c, message, &f, started, out, r);
    } else if (is_mcp && !faults_any(&f)) {
        fate = rpc(c, message, &f, out, r);
    } else if (is_bare || is_mcp) {
        fate = faults_any(&f) || is_state ? MESSAGE_ANSWERED : MESSAGE_CLOSES;
        *r = faults_any(&f) ? put_faults(&f, out) : fate == MESSAGE_ANSWERED ? state(c, out) : 0;
    } else {
        *r = unknown(type, out);
    }
    faults_deinit(&f);
    return fate;
}

enum message_fate message_take(const struct message_context *c, struct sv text,
                               struct step **started, struct buf *out) {
    AUTO_JSON json_t *message = NULL;
    struct err err = {0};
    int r = 0;
    enum message_fate fate = MESSAGE_ANSWERED;
    if (json_parse(text, "Invalid JSON:", &message, &err) < 0) {
        r = message_put_error(out, "INVALID_JSON", err.msg, NULL);
    } else if (!json_is_object(message)) {
        r = message_put_error(out, "SESSION_ERROR", "a message is an object", NULL);
        fate = MESSAGE_ENDS;
    } else {
        fate = take_object(c, message, started, out, &r);
    }
    return r < 0 ? MESSAGE_CLOSES : fate; /* Without memory for an answer there can be none. */
}
