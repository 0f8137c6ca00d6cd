/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Jobs proxy: /p/JOB--PORT.local/REST of a request with the token goes to REST of the job's own
 * port. Requests are read one by one, so that each can be logged and struck by a fault; answers
 * flow back as they are.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "net/conn.h"
#include "tests/doubles/hub/fault.h"
#include "tests/doubles/hub/hub.h"

struct visit {
    struct hub *hub;
    struct conn *client;
    struct conn *server; /* NULL until the first request is let through. */
    struct http1_head_parser parser;
    struct http1_body body;
    bool in_body;
    bool raw;     /* To be upgraded: bytes are only passed on. */
    bool stalled; /* Bytes of both sides are dropped from here on. */
    bool limited;
    uint64_t left; /* Of the answer, when limited. */
};

static void visit_end(struct visit *v, bool orderly) {
    if (orderly) {
        conn_finish(v->client);
    } else {
        conn_finish_reset(v->client);
    }
    conn_abort(v->server);
    http1_head_parser_deinit(&v->parser);
    free(v);
}

/* Answers in the job's place and ends the connection. */
static void refuse(struct visit *v, int status, const char *type, const char *text,
                   const json_t *headers) {
    AUTO_BUF struct buf out = {0};
    const char *name;
    json_t *value;
    int r = http1_put_status(&out, status, (struct sv){0}, NULL);
    json_object_foreach((json_t *)headers, name, value) {
        r = r < 0 ? r
                  : http1_put_field(&out, sv_from(name), sv_from(json_string_value(value)), NULL);
    }
    r = r < 0 ? r : http1_put_field(&out, SV("Content-Type"), sv_from(type), NULL);
    r = r < 0 ? r : buf_adds(&out, "Connection: close\r\n");
    r = r < 0 ? r : http1_put_framing(&out, HTTP1_LENGTH, strlen(text), NULL);
    r = r < 0 ? r : http1_put_end(&out, NULL);
    r = r < 0 ? r : buf_adds(&out, text);
    r = r < 0 ? r : conn_write(v->client, buf_sv(&out));
    visit_end(v, r == 0);
}

/* --- the job's side --- */

static void on_answer(struct conn *c, struct sv bytes, void *arg) {
    struct visit *v = arg;
    bool last = v->limited && bytes.n >= v->left;
    bytes.n = last ? (size_t)v->left : bytes.n;
    v->left -= v->limited ? bytes.n : 0;
    if (conn_write(v->client, bytes) < 0 || last) {
        visit_end(v, false);
    } else if (conn_is_full(v->client)) {
        conn_read_pause(c);
    }
}

static void on_server_eof(struct conn *c, bool truncated, void *arg) {
    (void)c;
    visit_end(arg, !truncated);
}

static void on_server_gone(struct conn *c, const struct err *err, void *arg) {
    (void)c;
    (void)err;
    visit_end(arg, false);
}

static void on_server_drain(struct conn *c, void *arg) {
    struct visit *v = arg;
    (void)c;
    conn_read_resume(v->client);
}

static const struct conn_events server_events = {
    .on_read = on_answer,
    .on_eof = on_server_eof,
    .on_gone = on_server_gone,
    .on_drain = on_server_drain,
};

/* --- a request --- */

struct target {
    struct job *job;
    uint16_t port;
    struct sv rest; /* From its slash. */
};

static bool find_target(struct visit *v, struct sv path, struct target *out) {
    unsigned long long port = 0;
    if (!sv_starts_with(path, SV("/p/"))) {
        return false;
    }
    struct sv name = sv_cut(path, 3);
    size_t slash = sv_find(name, SV("/"));
    size_t dashes = sv_find(name, SV("--"));
    size_t dot = sv_find(name, SV(".local"));
    if (dashes == (size_t)-1 || dot == (size_t)-1 || dot < dashes ||
        !sv_parse_u64((struct sv){name.p + dashes + 2, dot - dashes - 2}, 65535, &port)) {
        return false;
    }
    out->job = job_find(v->hub, (struct sv){name.p, dashes});
    out->port = (uint16_t)port;
    out->rest = slash == (size_t)-1 ? SV("/") : sv_cut(name, slash);
    return out->job != NULL;
}

static bool is_let_in(const struct hub *h, const struct http1_head *head) {
    struct sv sent = http1_get(head, SV("Authorization"));
    return sv_starts_with(sent, SV("Bearer ")) && sv_eq(sv_cut(sent, 7), sv_from(h->token));
}

/* 0, or the visit is over. */
static int connect_job(struct visit *v, const struct target *t) {
    struct err err = {0};
    int fd = -1;
    if (v->server) {
        return 0;
    }
    bool runs = t->job->container && strcmp(t->job->stage, "RUNNING") == 0;
    if (!runs || container_dial(t->job->container, t->port, &fd, &err) < 0) {
        refuse(v, 503, "text/html", "<html><body>the job is not ready</body></html>", NULL);
        return ERR_CONNECT;
    }
    if (conn_new(v->hub->loop, &(struct conn_options){.fd = fd}, &v->server, &err) < 0) {
        refuse(v, 502, "text/html", "<html><body>bad gateway</body></html>", NULL);
        return ERR_CONNECT;
    }
    conn_set_events(v->server, &server_events, v);
    conn_read_resume(v->server);
    return 0;
}

static int forward_head(struct visit *v, const struct http1_head *head, const struct target *t) {
    AUTO_BUF struct buf out = {0};
    int r = http1_put_request(&out, head->method, t->rest, NULL);
    for (size_t i = 0; r == 0 && i < head->n_fields; i++) {
        r = buf_add_sv(&out, http1_line(head, i));
    }
    r = r < 0 ? r : http1_put_end(&out, NULL);
    r = r < 0 ? r : conn_write(v->server, buf_sv(&out));
    if (r < 0) {
        visit_end(v, false);
    }
    return r;
}

static void strike_job(struct job *j, const char *what) {
    if (what && j->container && strcmp(what, "vanish") == 0) {
        container_kill(j->container);
    }
}

/* What a rule does to the request; true when it goes no further. */
static bool strike(struct visit *v, const json_t *rule, const struct target *t) {
    strike_job(t->job, fault_text(rule, "job"));
    if (json_is_true(json_object_get(rule, "drop"))) {
        visit_end(v, false);
        return true;
    }
    if (json_is_true(json_object_get(rule, "stall"))) {
        v->stalled = true;
        return true;
    }
    if (json_object_get(rule, "status")) {
        const char *body = fault_text(rule, "body");
        refuse(v, (int)fault_number(rule, "status", 500), "text/html", body ? body : "",
               json_object_get(rule, "headers"));
        return true;
    }
    long cut = json_is_true(json_object_get(rule, "drop_answer"))
                   ? 0
                   : fault_number(rule, "cut_after", -1);
    v->limited = v->limited || cut >= 0;
    v->left = cut >= 0 ? (uint64_t)cut : v->left;
    return false;
}

/* 0: go on; the visit is over otherwise. */
static int on_head(struct visit *v, const struct http1_head *head) {
    struct target t = {0};
    struct sv path = http1_target_path(head);
    if (!is_let_in(v->hub, head)) {
        refuse(v, 401, "application/json", "{\"error\":\"Unauthorized\"}", NULL);
        return ERR_DENIED;
    }
    if (!find_target(v, path, &t)) {
        refuse(v, 404, "text/html", "<html><body>no such job</body></html>", NULL);
        return ERR_NOT_FOUND;
    }
    const json_t *rule = fault_take(v->hub->faults, "proxy", head->method, t.rest);
    hub_log(v->hub,
            json_pack("{s:s, s:s, s:o, s:o, s:b, s:b, s:b}", "event", "proxy", "job", t.job->id,
                      "method", json_text(head->method), "path", json_text(t.rest), "fault",
                      rule != NULL, "expect", head->expect_continue, "chunked", head->chunked));
    if (rule && strike(v, rule, &t)) {
        return ERR_CLOSED;
    }
    int r = connect_job(v, &t);
    r = r < 0 ? r : forward_head(v, head, &t);
    if (r == 0) {
        http1_body_of_request(&v->body, head);
        v->in_body = true;
        v->raw = head->upgrade;
    }
    return r;
}

static void on_bytes(struct visit *v, struct sv in) {
    struct err err = {0};
    while (!v->stalled && (in.n > 0 || (v->in_body && !v->raw))) {
        size_t used = 0;
        struct sv span;
        if (v->raw) {
            if (conn_write(v->server, in) < 0) {
                visit_end(v, false);
            }
            return;
        }
        if (v->in_body) {
            int r = http1_body_next(&v->body, in, &used, &span, &err);
            bool sent = r >= 0 && conn_write(v->server, (struct sv){in.p, used}) == 0;
            if (!sent) {
                visit_end(v, false);
                return;
            }
            in = sv_cut(in, used);
            v->in_body = r != HTTP1_END;
            if (r == HTTP1_MORE) {
                return;
            }
            continue;
        }
        struct http1_head head;
        int r = http1_head_feed(&v->parser, in, &used, &head, &err);
        if (r < 0) {
            refuse(v, 400, "text/html", "<html><body>bad request</body></html>", NULL);
            return;
        }
        in = sv_cut(in, used);
        if (r == 0 || on_head(v, &head) < 0) {
            return;
        }
    }
}

/* --- the client's side --- */

static void on_read(struct conn *c, struct sv bytes, void *arg) {
    struct visit *v = arg;
    (void)c;
    on_bytes(v, bytes);
}

static void on_eof(struct conn *c, bool truncated, void *arg) {
    (void)c;
    (void)truncated;
    visit_end(arg, true);
}

static void on_gone(struct conn *c, const struct err *err, void *arg) {
    (void)c;
    (void)err;
    visit_end(arg, false);
}

static void on_drain(struct conn *c, void *arg) {
    struct visit *v = arg;
    (void)c;
    if (v->server) {
        conn_read_resume(v->server);
    }
}

static const struct conn_events client_events = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_gone = on_gone,
    .on_drain = on_drain,
};

void proxy_on_accept(struct conn *c, void *arg) {
    struct visit *v = calloc(1, sizeof *v);
    if (!v) {
        conn_abort(c);
        return;
    }
    v->hub = arg;
    v->client = c;
    v->parser.kind = HTTP1_REQUEST;
    conn_set_events(c, &client_events, v);
    conn_read_resume(c);
}
