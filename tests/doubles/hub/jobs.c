/* SPDX-License-Identifier: BSD-3-Clause */
/* The Jobs API: whoami-v2, create, inspect, list, cancel, logs; and the bucket with the server. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/doubles/hub/fault.h"
#include "tests/doubles/hub/hub.h"

#define SERVER_MAX (64u << 20) /* Of the program that stands for sbx-server. */
#define PAGE 100               /* Jobs on one page of a list. */

static void reply(struct exchange *x, int status, json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT);
    exchange_reply(x, status, SV("application/json"), sv_from(text));
    free(text);
    json_decref(value);
}

static void fail(struct exchange *x, int status, const char *text) {
    reply(x, status, json_pack("{s:s}", "error", text));
}

/* --- faults --- */

#define HEADERS_MAX 16

static void reply_fault(struct exchange *x, const json_t *rule) {
    struct server_field fields[HEADERS_MAX];
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(rule, "headers"), name, value) {
        if (n < HEADERS_MAX) {
            fields[n++] = (struct server_field){sv_from(name), sv_from(json_string_value(value))};
        }
    }
    const json_t *body = json_object_get(rule, "body");
    char *made = json_is_string(body) ? NULL : json_dumps(body, JSON_COMPACT);
    struct sv text = sv_from(json_is_string(body) ? json_string_value(body) : made);
    (void)exchange_start(x, (int)fault_number(rule, "status", 500), fields, n, HTTP1_LENGTH,
                         text.n);
    (void)exchange_send(x, text);
    exchange_end(x);
    free(made);
}

/* --- the calls --- */

static void create(struct hub *h, struct exchange *x, struct sv owner, const json_t *rule) {
    struct err err = {0};
    json_t *spec = NULL;
    if (json_parse(exchange_body(x), "body", &spec, &err) < 0 ||
        !json_is_array(json_object_get(spec, "command")) ||
        !json_is_string(json_object_get(spec, "flavor")) ||
        (!json_object_get(spec, "dockerImage") && !json_object_get(spec, "spaceId"))) {
        json_decref(spec);
        fail(x, 400, "bad job: want command, flavor and dockerImage or spaceId");
        return;
    }
    AUTO_FREE char *name = mem_strndup(owner.p, owner.n);
    struct job *j = job_new(h, name, spec, fault_text(rule, "job"));
    if (!j) {
        fail(x, 500, "out of memory");
    } else if (json_is_true(json_object_get(rule, "drop_answer"))) {
        exchange_cut(x, EXCHANGE_CUT_RESET);
    } else {
        reply(x, 200, job_json(j));
    }
}

/* The query's fields of one name, decoded enough for stages and labels. */
static bool query_next(struct sv *left, struct sv name, char *out, size_t max) {
    while (left->n > 0) {
        size_t end = sv_find(*left, SV("&"));
        struct sv field = end == (size_t)-1 ? *left : (struct sv){left->p, end};
        *left = end == (size_t)-1 ? (struct sv){0} : sv_cut(*left, end + 1);
        if (!sv_starts_with(field, name) || field.n <= name.n || field.p[name.n] != '=') {
            continue;
        }
        size_t n = 0;
        for (size_t i = name.n + 1; i < field.n && n + 1 < max; i++) {
            bool coded = field.p[i] == '%' && i + 2 < field.n;
            out[n++] =
                coded && field.p[i + 1] == '3' && (field.p[i + 2] | 0x20) == 'd' ? '=' : field.p[i];
            i += coded ? 2 : 0;
        }
        out[n] = '\0';
        return true;
    }
    return false;
}

static bool is_wanted(const struct job *j, struct sv query) {
    char value[256];
    bool any_stage = false;
    bool stage = false;
    struct sv left = query;
    while (query_next(&left, SV("stage"), value, sizeof value)) {
        any_stage = true;
        stage = stage || strcmp(value, j->stage) == 0;
    }
    left = query;
    while (query_next(&left, SV("label"), value, sizeof value)) {
        char *equals = strchr(value, '=');
        if (equals) {
            *equals = '\0';
        }
        const char *has =
            json_string_value(json_object_get(json_object_get(j->spec, "labels"), value));
        if (!has || (equals && strcmp(has, equals + 1) != 0)) {
            return false;
        }
    }
    return stage || !any_stage;
}

static void list(struct hub *h, struct exchange *x, struct sv owner) {
    struct sv query = exchange_query(x);
    struct sv left = query;
    char text[32] = "0";
    unsigned long long skip = 0;
    if (query_next(&left, SV("skip"), text, sizeof text)) {
        (void)sv_parse_u64(sv_from(text), 1u << 30, &skip);
    }
    json_t *page = json_array();
    size_t seen = 0;
    bool more = false;
    for (struct job *j = h->jobs; j && !more; j = j->next) {
        if (sv_eq(owner, sv_from(j->owner)) && is_wanted(j, query) && seen++ >= skip) {
            more = json_array_size(page) == PAGE;
            if (!more) {
                json_array_append_new(page, job_json(j));
            }
        }
    }
    size_t at = sv_find(query, SV("&skip="));
    struct sv filter = at == (size_t)-1 ? query : (struct sv){query.p, at};
    AUTO_FREE char *link =
        mem_printf("<http://127.0.0.1:%u/api/jobs/%.*s?%.*s&skip=%llu>; rel=\"next\"",
                   server_port(h->api), SV_ARG(owner), SV_ARG(filter), skip + PAGE);
    const struct server_field fields[] = {{SV("Content-Type"), SV("application/json")},
                                          {SV("Link"), sv_from(link)}};
    char *body = json_dumps(page, JSON_COMPACT);
    (void)exchange_start(x, 200, fields, more ? 2 : 1, HTTP1_LENGTH, strlen(body));
    (void)exchange_send(x, sv_from(body));
    exchange_end(x);
    free(body);
    json_decref(page);
}

static void logs(const struct job *j, struct exchange *x) {
    const struct server_field type = {SV("Content-Type"), SV("text/event-stream")};
    struct sv left = buf_sv(&j->log);
    (void)exchange_start(x, 200, &type, 1, HTTP1_CHUNKED, 0);
    while (left.n > 0) {
        size_t end = sv_find(left, SV("\n"));
        struct sv line = end == (size_t)-1 ? left : (struct sv){left.p, end};
        left = sv_cut(left, line.n + 1);
        AUTO_BUF struct buf event = {0};
        int r = buf_adds(&event, "data: {\"data\":");
        r = r < 0 ? r : json_quote(line, &event);
        r = r < 0 ? r : buf_adds(&event, ",\"timestamp\":\"2026-01-01T00:00:00.000Z\"}\n\n");
        (void)exchange_send(x, r < 0 ? (struct sv){0} : buf_sv(&event));
    }
    exchange_end(x);
}

static void one(struct job *j, struct exchange *x, struct sv call) {
    struct sv method = exchange_head(x)->method;
    bool gets = sv_eq(method, SV("GET"));
    if (gets && call.n == 0) {
        reply(x, 200, job_json(j));
    } else if (gets && sv_eq(call, SV("logs"))) {
        logs(j, x);
    } else if (sv_eq(method, SV("POST")) && sv_eq(call, SV("cancel"))) {
        job_cancel(j);
        reply(x, 200, job_json(j));
    } else {
        fail(x, 404, "no such route");
    }
}

/* /api/jobs/{owner}[/{id}[/{call}]] */
static void jobs(struct hub *h, struct exchange *x, struct sv rest, const json_t *rule) {
    size_t slash = sv_find(rest, SV("/"));
    struct sv owner = slash == (size_t)-1 ? rest : (struct sv){rest.p, slash};
    struct sv id = slash == (size_t)-1 ? (struct sv){0} : sv_cut(rest, slash + 1);
    slash = sv_find(id, SV("/"));
    struct sv call = slash == (size_t)-1 ? (struct sv){0} : sv_cut(id, slash + 1);
    id.n = slash == (size_t)-1 ? id.n : slash;
    if (id.n > 0) {
        struct job *j = job_find(h, id);
        if (j && sv_eq(owner, sv_from(j->owner))) {
            one(j, x, call);
        } else {
            fail(x, 404, "Job not found");
        }
    } else if (sv_eq(exchange_head(x)->method, SV("POST"))) {
        create(h, x, owner, rule);
    } else {
        list(h, x, owner);
    }
}

static void serve_program(const struct hub *h, struct exchange *x) {
    AUTO_BUF struct buf bytes = {0};
    struct err err = {0};
    if (file_read(h->sbx, SERVER_MAX, &bytes, &err) < 0) {
        fail(x, 404, err.msg);
    } else {
        exchange_reply(x, 200, SV("application/octet-stream"), buf_sv(&bytes));
    }
}

static bool is_let_in(const struct hub *h, const struct exchange *x) {
    struct sv sent = http1_get(exchange_head(x), SV("Authorization"));
    return sv_starts_with(sent, SV("Bearer ")) && sv_eq(sv_cut(sent, 7), sv_from(h->token));
}

static void state(const struct hub *h, struct exchange *x) {
    json_t *all = json_array();
    for (const struct job *j = h->jobs; j; j = j->next) {
        json_array_append_new(all, job_json(j));
    }
    reply(x, 200, json_pack("{s:i, s:o}", "alive", (int)h->n_alive, "jobs", all));
}

/* POST /_faults sets the rules anew: a test's own door, as GET /_state. */
static void set_faults(struct hub *h, struct exchange *x) {
    json_t *rules = NULL;
    struct err err = {0};
    if (json_parse(exchange_body(x), "faults", &rules, &err) < 0 || !json_is_array(rules)) {
        json_decref(rules);
        fail(x, 400, "want an array of rules");
        return;
    }
    json_decref(h->faults);
    h->faults = rules;
    reply(x, 200, json_object());
}

static void route(struct hub *h, struct exchange *x, const json_t *rule) {
    struct sv path = exchange_path(x);
    if (!is_let_in(h, x)) {
        fail(x, 401, "Invalid credentials in Authorization header");
    } else if (sv_eq(path, SV("/api/whoami-v2"))) {
        reply(x, 200,
              json_pack("{s:s, s:s, s:s, s:[]}", "type", "user", "id", "66f0", "name", h->user,
                        "orgs"));
    } else if (sv_starts_with(path, SV("/api/jobs/"))) {
        jobs(h, x, sv_cut(path, strlen("/api/jobs/")), rule);
    } else {
        fail(x, 404, "no such route");
    }
}

static void late(struct exchange *x, void *arg) {
    struct hub *h = arg;
    route(h, x, NULL);
}

void jobs_on_request(struct exchange *x, void *arg) {
    struct hub *h = arg;
    struct sv path = exchange_path(x);
    struct sv method = exchange_head(x)->method;
    if (sv_eq(path, SV("/_state"))) {
        state(h, x);
        return;
    }
    if (sv_eq(path, SV("/_faults"))) {
        set_faults(h, x);
        return;
    }
    if (sv_starts_with(path, SV("/buckets/huggingface/sbx-server/resolve/"))) {
        serve_program(h, x);
        return;
    }
    const json_t *rule = fault_take(h->faults, "api", method, path);
    hub_log(h, json_pack("{s:s, s:o, s:o, s:o, s:b}", "event", "api", "method", json_text(method),
                         "path", json_text(path), "query", json_text(exchange_query(x)), "fault",
                         rule != NULL));
    if (json_is_true(json_object_get(rule, "drop"))) {
        exchange_cut(x, EXCHANGE_CUT_RESET);
    } else if (json_object_get(rule, "status")) {
        reply_fault(x, rule);
    } else if (json_object_get(rule, "delay_ms")) {
        exchange_after(x, fault_number(rule, "delay_ms", 0), late, h);
    } else {
        route(h, x, rule);
    }
}
