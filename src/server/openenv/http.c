/* SPDX-License-Identifier: BSD-3-Clause */
/* /reset, /step and /state over HTTP: each with an environment of its own, made and forgotten. */
#include <stdlib.h>

#include "base/json.h"
#include "server/openenv/face.h"

/* --- answers, in the words of FastAPI --- */

void http_json(struct exchange *x, int status, json_t *value) {
    AUTO_BUF struct buf text = {0};
    int r = value ? json_compact(value, &text) : ERR_NOMEM;
    json_decref(value);
    if (r < 0) {
        exchange_reply(x, 500, SV("text/plain"), SV("Internal Server Error"));
    } else {
        exchange_reply(x, status, SV("application/json"), buf_sv(&text));
    }
}

void http_detail(struct exchange *x, int status, const char *text) {
    http_json(x, status, json_pack("{s:s}", "detail", text));
}

void http_faults(struct exchange *x, struct faults *f) {
    http_json(x, 422, json_pack("{s:o}", "detail", faults_take(f)));
}

static bool refuse_body(struct exchange *x, const char *type, const char *msg) {
    struct faults f = {.under = {"body"}};
    fault_add(&f, type, NULL, msg, NULL);
    http_faults(x, &f);
    return false;
}

bool http_body(struct exchange *x, bool optional, json_t **out) {
    struct sv body = exchange_body(x);
    if (body.n == 0 && !optional) {
        return refuse_body(x, "missing", "Field required");
    }
    if (json_parse(body.n > 0 ? body : SV("{}"), "body", out, NULL) < 0) {
        return refuse_body(x, "json_invalid", "JSON decode error");
    }
    if (optional && json_is_null(*out)) {
        json_decref(*out);
        *out = json_object();
    }
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
        return refuse_body(x, "model_attributes_type",
                           "Input should be a valid dictionary or object to extract fields from");
    }
    return true;
}

static void reply_payload(struct exchange *x, struct sv payload) {
    if (payload.n == 0) {
        exchange_reply(x, 500, SV("text/plain"), SV("Internal Server Error"));
    } else {
        exchange_reply(x, 200, SV("application/json"), payload);
    }
}

/* --- reset and state --- */

void http_reset(struct openenv *e, struct exchange *x, struct session *s) {
    struct environment fresh = {0};
    struct environment *environment = s ? &s->environment : &fresh;
    struct faults f = {.under = {"body"}};
    AUTO_JSON json_t *body = NULL;
    AUTO_BUF struct buf payload = {0};
    const char *id = NULL;
    if (!http_body(x, /* optional= */ true, &body)) {
        return;
    }
    faults_of_reset(&f, body, &id);
    if (faults_any(&f)) {
        http_faults(x, &f);
        return;
    }
    int r = environment_reset(environment, sv_from(id));
    r = r < 0 ? r : step_put_reset(environment, &payload);
    reply_payload(x, r < 0 ? (struct sv){0} : buf_sv(&payload));
    if (s && r == 0) {
        watchers_tell_reset(&e->watchers, environment, buf_sv(&payload));
    }
    environment_deinit(&fresh);
}

void http_state(struct openenv *e, struct exchange *x, struct session *s) {
    struct environment fresh = {0};
    (void)e;
    if (!s && environment_reset(&fresh, (struct sv){0}) < 0) {
        http_json(x, 500, NULL);
        return;
    }
    http_json(x, 200, environment_state(s ? &s->environment : &fresh));
    environment_deinit(&fresh);
}

/* --- step --- */

struct http_step {
    struct http_step *prev, *next;
    struct openenv *openenv;
    struct exchange *x;
    struct step *step;
    struct session *web; /* The web page's; NULL: another. */
    json_t *action;      /* Of the web page: what it does. */
};

static void forget(struct http_step *h) {
    *(h->prev ? &h->prev->next : &h->openenv->http_steps) = h->next;
    if (h->next) {
        h->next->prev = h->prev;
    }
    if (h->web) {
        session_release(h->web);
    }
    json_decref(h->action);
    free(h);
}

static void on_done(void *arg, struct sv payload) {
    struct http_step *h = arg;
    reply_payload(h->x, payload);
    if (h->web && payload.n > 0) {
        watchers_tell_step(&h->openenv->watchers, &h->web->environment, h->action, payload);
    }
    forget(h);
}

static void on_gone(struct exchange *x, void *arg) {
    struct http_step *h = arg;
    exchange_cut(x, EXCHANGE_CUT_RESET);
    step_drop(h->step);
    forget(h);
}

void http_end_all(struct openenv *e) {
    while (e->http_steps) {
        on_gone(e->http_steps->x, e->http_steps);
    }
}

static void start_step(struct openenv *e, struct exchange *x, struct session *s,
                       const struct action *a, json_t *data, double timeout_s) {
    struct http_step *h = calloc(1, sizeof *h);
    struct step *step = NULL;
    char peer[CONN_PEER_MAX];
    exchange_peer(x, peer);
    if (!h) {
        http_json(x, 500, NULL);
        return;
    }
    *h = (struct http_step){.next = e->http_steps, .openenv = e, .x = x};
    if (h->next) {
        h->next->prev = h;
    }
    if (s) {
        session_use(s);
        h->web = s;
        h->action = json_incref(data);
    }
    e->http_steps = h;
    const struct step_options o = {
        .loop = e->options.loop,
        .tools = e->options.tools,
        .client = peer,
        .session = s,
        .timeout_s = timeout_s,
        .on_done = on_done,
        .arg = h,
    };
    step_start(&o, a, &step);
    if (step) { /* Else it is answered, and `h` is gone. */
        h->step = step;
        exchange_on_gone(x, on_gone, h);
    }
}

/* A form's field holds the arguments as text. What is no JSON stays, and is told as wrong. */
static void decode_arguments(json_t *action) {
    const json_t *text = json_object_get(action, "arguments");
    struct sv v = {json_string_value(text), json_string_length(text)};
    json_t *value = NULL;
    if (text && json_is_string(text) && json_parse(v, "arguments", &value, NULL) == 0) {
        (void)json_object_set_new(action, "arguments", value);
    }
}

void http_step(struct openenv *e, struct exchange *x, struct session *s) {
    struct faults envelope = {.under = {"body"}};
    struct faults f = {0};
    struct action action = {0};
    double timeout_s = 0;
    AUTO_JSON json_t *body = NULL;
    if (!http_body(x, /* optional= */ false, &body)) {
        return;
    }
    if (s) {
        decode_arguments(json_object_get(body, "action"));
    }
    const json_t *data = faults_need_object(&envelope, body, "action");
    faults_of_step(&envelope, body, &timeout_s);
    if (!faults_any(&envelope)) {
        action_read(data, &f, &action);
    }
    if (faults_any(&envelope) || faults_any(&f)) {
        http_faults(x, faults_any(&envelope) ? &envelope : &f);
    } else {
        start_step(e, x, s, &action, json_object_get(body, "action"), timeout_s);
    }
}
