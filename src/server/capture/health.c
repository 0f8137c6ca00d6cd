/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/json.h"
#include "server/capture/server.h"

static int add_upstream(void *list, const struct gateway_upstream *u) {
    return json_array_append_new(
        list, json_pack("{s:s, s:b}", "llm_url", u->url, "available", !u->is_out));
}

/* In the words of OpenEnv's capture server; keys are never shown. */
int health_show(struct capture *c, bool is_allowed, struct reply *out, struct err *err) {
    AUTO_JSON json_t *upstreams = json_array();
    if (!upstreams ||
        (is_allowed && gateway_list_upstreams(c->gateway, add_upstream, upstreams) < 0)) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const struct gateway_session_options *s = &c->o->session;
    const char *level = s->level ? s->level : "tokens";
    bool trains = strcmp(level, "tokens") == 0;
    return reply_json(out, 200,
                      json_pack("{s:s, s:s, s:s, s:s?, s:i, s:b, s:s, s:s, s:O, s:b, s:s}",
                                "status", "ok", "instance", c->instance, "engine", "unknown",
                                "model", s->model_override, "sessions", (int)sessions_count(c),
                                "require_registered", (int)c->o->sessions, "capture_level", level,
                                "rollout_type", trains ? "train" : "eval", "upstreams", upstreams,
                                "upstream_auth", s->api_key != NULL, "version", SNAFFLE_VERSION),
                      err);
}
