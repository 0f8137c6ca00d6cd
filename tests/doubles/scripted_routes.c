/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/doubles/scripted_routes.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/scripted_answer.h"
#include "tests/doubles/scripted_log.h"
#include "tests/doubles/scripted_play.h"

#define JSON_TYPE SV("application/json")

struct call {
    struct routes *routes;
    struct exchange *x;
    unsigned long long number;
};

static void reply_built(const struct call *c, int status, int built, const struct buf *body) {
    scripted_log_end(c->routes->log_fd, c->number, "complete", 0);
    struct server_field fields[] = {{SV("Content-Type"), JSON_TYPE},
                                    {SV("Server"), SV("llama.cpp")}};
    size_t n = c->routes->script.voice == VOICE_LLAMACPP ? 2 : 1;
    (void)exchange_start(c->x, built < 0 ? 500 : status, fields, n, HTTP1_LENGTH, body->len);
    (void)exchange_send(c->x, buf_sv(body));
    exchange_end(c->x);
}

static void reply_error(const struct call *c, int status, const char *type, const char *text) {
    AUTO_BUF struct buf body = {0};
    int r = answer_error(status, type, text, &body);
    reply_built(c, status, r, &body);
}

static void on_chat(const struct call *c) {
    struct refusal no = {0};
    struct play_job job = {
        .x = c->x, .script = &c->routes->script, .number = c->number, .log_fd = c->routes->log_fd};
    struct sv body = exchange_body(c->x);
    if (!ask_parse(body, job.script, &job.ask, &no)) {
        reply_error(c, no.status, no.type, no.text);
        return;
    }
    job.scene = script_scene(&c->routes->script, job.ask.body, body.p, body.n);
    play_start(&job);
}

static int put_models(const struct routes *m, struct buf *out) {
    TRY(buf_adds(out, "{\"object\":\"list\",\"data\":[{\"id\":"));
    TRY(json_quote(sv_from(m->script.model), out));
    TRY(buf_addf(
        out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"vllm\",\"root\":", m->started));
    TRY(json_quote(sv_from(m->script.model), out));
    return buf_addf(out, ",\"parent\":null,\"max_model_len\":%lld,\"permission\":[]}]}",
                    m->script.max_model_len);
}

static void on_models(const struct call *c) {
    AUTO_BUF struct buf body = {0};
    int r = put_models(c->routes, &body);
    reply_built(c, 200, r, &body);
}

static void on_health(const struct call *c) {
    scripted_log_end(c->routes->log_fd, c->number, "complete", 0);
    exchange_reply(c->x, 200, (struct sv){0}, (struct sv){0});
}

static void on_version(const struct call *c) {
    AUTO_BUF struct buf body = {0};
    int r = buf_adds(&body, "{\"version\":\"scripted\"}");
    reply_built(c, 200, r, &body);
}

static int put_tokens(const struct routes *m, const struct tokens *t, struct buf *out) {
    TRY(buf_addf(out, "{\"count\":%zu,\"max_model_len\":%lld,\"tokens\":[", t->n,
                 m->script.max_model_len));
    for (size_t i = 0; i < t->n; i++) {
        TRY(buf_addf(out, "%s%u", i ? "," : "", t->v[i].id));
    }
    return buf_adds(out, "]}");
}

/* Of {"messages": ...}: what a chat request would have for its prompt. */
static void on_tokenize(const struct call *c) {
    AUTO_JSON json_t *request = NULL;
    AUTO_BUF struct buf body = {0};
    struct err err = {0};
    struct tokens prompt = {0};
    int r = json_parse(exchange_body(c->x), "body", &request, &err);
    if (r < 0) {
        reply_error(c, 400, "BadRequestError", err.msg);
        return;
    }
    r = tokens_add_prompt(&prompt, request);
    r = r < 0 ? r : put_tokens(c->routes, &prompt, &body);
    tokens_deinit(&prompt);
    reply_built(c, 200, r, &body);
}

static int put_text(const json_t *ids, struct buf *out) {
    AUTO_BUF struct buf text = {0};
    size_t i;
    json_t *id;
    json_array_foreach(ids, i, id) {
        TRY(token_text((uint32_t)json_integer_value(id), &text));
    }
    TRY(buf_adds(out, "{\"prompt\":"));
    TRY(json_quote(buf_sv(&text), out));
    return buf_addc(out, '}');
}

static void on_detokenize(const struct call *c) {
    AUTO_JSON json_t *request = NULL;
    AUTO_BUF struct buf body = {0};
    struct err err = {0};
    if (json_parse(exchange_body(c->x), "body", &request, &err) < 0) {
        reply_error(c, 400, "BadRequestError", err.msg);
        return;
    }
    int r = put_text(json_object_get(request, "tokens"), &body);
    reply_built(c, 200, r, &body);
}

static const struct route {
    const char *path, *method;
    void (*run)(const struct call *c);
} table[] = {
    {"/v1/chat/completions", "POST", on_chat},
    {"/v1/models", "GET", on_models},
    {"/health", "GET", on_health},
    {"/version", "GET", on_version},
    {"/tokenize", "POST", on_tokenize},
    {"/detokenize", "POST", on_detokenize},
};

static bool is_allowed(const struct call *c, const struct route *route) {
    const char *key = c->routes->script.api_key;
    if (!key || strncmp(route->path, "/v1/", 4) != 0) {
        return true;
    }
    AUTO_FREE char *want = mem_printf("Bearer %s", key);
    return want && sv_eq(http1_get(exchange_head(c->x), SV("Authorization")), sv_from(want));
}

static void reply_text(const struct call *c, int status, const char *text) {
    AUTO_BUF struct buf body = {0};
    int r = buf_adds(&body, text);
    reply_built(c, status, r, &body);
}

void routes_on_request(struct exchange *x, void *arg) {
    struct call c = {.routes = arg, .x = x};
    c.number = ++c.routes->requests;
    scripted_log_request(c.routes->log_fd, c.number, x);
    const struct route *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(table) && !found; i++) {
        found = sv_eq(exchange_path(x), sv_from(table[i].path)) ? &table[i] : NULL;
    }
    if (!found) {
        reply_text(&c, 404, "{\"detail\":\"Not Found\"}");
    } else if (!sv_eq(exchange_head(x)->method, sv_from(found->method))) {
        reply_text(&c, 405, "{\"detail\":\"Method Not Allowed\"}");
    } else if (!is_allowed(&c, found)) {
        reply_text(&c, 401, "{\"error\":\"Unauthorized\"}");
    } else {
        found->run(&c);
    }
}
