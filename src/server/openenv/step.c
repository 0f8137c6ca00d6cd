/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/step.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/mcp/result.h"

/* --- the action --- */

void action_read(const json_t *data, struct faults *f, struct action *out) {
    static const char *const of_list[] = {"type", "metadata", NULL};
    static const char *const of_call[] = {"type", "metadata", "tool_name", "arguments", NULL};
    const json_t *type = json_object_get(data, "type");
    const json_t *tool = json_object_get(data, "tool_name");
    out->lists = sv_eq(json_sv(type), SV("list_tools"));
    if (type && !out->lists && !sv_eq(json_sv(type), SV("call_tool"))) {
        fault_add(f, "literal_error", "type", "Input should be 'call_tool' or 'list_tools'", type);
    }
    faults_of_extra(f, data, out->lists ? of_list : of_call);
    if (json_object_get(data, "metadata")) {
        (void)faults_need_object(f, data, "metadata");
    }
    if (out->lists) {
        return;
    }
    if (!tool) {
        fault_add(f, "missing", "tool_name", "Field required", data);
    } else if (!json_is_string(tool)) {
        fault_add(f, "string_type", "tool_name", "Input should be a valid string", tool);
    }
    out->tool = json_sv(tool);
    out->arguments =
        json_object_get(data, "arguments") ? faults_need_object(f, data, "arguments") : NULL;
}

/* --- the answers --- */

static int put_payload(struct sv observation, struct buf *out) {
    int r = buf_adds(out, "{\"observation\":");
    r = r < 0 ? r : buf_add_sv(out, observation);
    return r < 0 ? r : buf_adds(out, ",\"reward\":null,\"done\":false}");
}

/* The metadata stands twice: older clients look in the observation, newer ones beside it. */
int step_put_reset(const struct environment *e, struct buf *out) {
    AUTO_JSON json_t *metadata = json_pack("{s:s, s:s, s:o}", "status", "ready", "tool", TOOL_NAME,
                                           "episode_id", json_text(sv_from(e->episode_id)));
    AUTO_JSON json_t *payload = json_pack("{s:{s:O}, s:n, s:b, s:O}", "observation", "metadata",
                                          metadata, "reward", "done", 0, "metadata", metadata);
    return payload ? json_compact(payload, out) : ERR_NOMEM;
}

static int put_tools(const struct tool_box *tools, struct buf *out) {
    AUTO_BUF struct buf observation = {0};
    int r = result_tools(tools, &observation, NULL);
    return r < 0 ? r : put_payload(buf_sv(&observation), out);
}

static int put_unknown_tool(struct sv tool, struct buf *out) {
    AUTO_BUF struct buf observation = {0};
    AUTO_FREE char *message =
        mem_printf("Unknown tool: '%.*s' (there is %s)", SV_ARG(tool), TOOL_NAME);
    AUTO_JSON json_t *value =
        json_pack("{s:o, s:n, s:{s:s, s:o}}", "tool_name", json_text(tool), "result", "error",
                  "error_type", "tool_not_found", "message", json_text(sv_from(message)));
    int r = value ? json_compact(value, &observation) : ERR_NOMEM;
    return r < 0 ? r : put_payload(buf_sv(&observation), out);
}

/* --- a call under way --- */

struct step {
    struct step_options options;
    struct session *session;
    struct tool_call *call; /* NULL once it has ended. */
    struct timer *timer;
    bool is_told; /* Or nobody wants to be told. */
};

static void release(struct step *s) {
    if (s->session) {
        s->session->calls--;
        session_release(s->session);
    }
    timer_free(s->timer);
    free(s);
}

static void tell(const struct step *s, const struct tool_result *r, double timed_out_s) {
    AUTO_BUF struct buf observation = {0};
    AUTO_BUF struct buf payload = {0};
    int rc = result_observation(r, timed_out_s, &observation, NULL);
    rc = rc < 0 ? rc : put_payload(buf_sv(&observation), &payload);
    s->options.on_done(s->options.arg, rc < 0 ? (struct sv){0} : buf_sv(&payload));
}

static void on_done(void *arg, const struct tool_result *r) {
    struct step *s = arg;
    if (s->session) {
        environment_note(&s->session->environment, r);
    }
    if (!s->is_told) {
        tell(s, r, 0);
    }
    release(s);
}

static void on_timeout(void *arg) {
    struct step *s = arg;
    s->is_told = true;
    tool_call_cancel(s->call);
    tell(s, NULL, s->options.timeout_s);
}

void step_drop(struct step *s) {
    if (s) {
        s->is_told = true;
        timer_stop(s->timer);
        tool_call_cancel(s->call);
    }
}

static int begin(struct step *s, const struct action *a, struct err *err) {
    struct loop *l = s->options.loop;
    struct tool_watch watch = {
        .loop = l, .on_done = on_done, .arg = s, .client = s->options.client};
    int r = timer_new(l, on_timeout, s, &s->timer, err);
    r = r < 0 ? r : tool_call_start(s->options.tools, a->arguments, &watch, &s->call, err);
    s->options.client = NULL;
    if (r == 0 && s->options.timeout_s > 0) {
        double ms = ceil(s->options.timeout_s * 1000);
        timer_start(s->timer, ms < (double)INT32_MAX ? (int64_t)ms : INT32_MAX);
    }
    return r;
}

static void start_call(const struct step_options *o, const struct action *a, struct step **out) {
    struct err err = {0};
    struct step *s = calloc(1, sizeof *s);
    if (!s) {
        o->on_done(o->arg, (struct sv){0});
        return;
    }
    s->options = *o;
    s->session = o->session;
    if (s->session) {
        session_use(s->session);
        s->session->calls++;
        s->session->environment.step_count++;
    }
    if (begin(s, a, &err) < 0) {
        const struct tool_result failed = {.outcome = TOOL_FAILED,
                                           .text = SV("the call could not be begun"),
                                           .quoted = SV("\"the call could not be begun\"")};
        tell(s, &failed, 0);
        release(s);
        return;
    }
    *out = s;
}

void step_start(const struct step_options *o, const struct action *a, struct step **out) {
    AUTO_BUF struct buf payload = {0};
    *out = NULL;
    if (!a->lists && sv_eq(a->tool, SV(TOOL_NAME))) {
        start_call(o, a, out);
        return;
    }
    int r = a->lists ? put_tools(o->tools, &payload) : put_unknown_tool(a->tool, &payload);
    if (o->session && !a->lists) {
        o->session->environment.step_count++;
    }
    o->on_done(o->arg, r < 0 ? (struct sv){0} : buf_sv(&payload));
}
