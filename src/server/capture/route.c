/* SPDX-License-Identifier: BSD-3-Clause */
/* Which request is the admin's, whether it may be made, and who answers it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "server/capture/pool.h"
#include "server/capture/server.h"

/* What an admin sends. A pool's 256 engines have half of it at 2 KB a URL; a session's metadata
 * stay in memory as long as the session. */
#define ADMIN_BODY_MAX (1u << 20)

int reply_json(struct reply *out, int status, json_t *value, struct err *err) {
    int rc = value ? json_compact(value, &out->body) : ERR_NOMEM;
    json_decref(value);
    out->status = status;
    return rc < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

int body_object(const struct request_view *r, const char *const *known, json_t **out,
                struct err *err) {
    struct sv text = r->body.n > 0 ? r->body : SV("{}");
    int rc = json_parse(text, "body", out, err);
    if (rc == 0 && !json_is_object(*out)) {
        rc = err_set(err, ERR_INPUT, "body: want an object, got %s", json_kind(*out));
    }
    return rc < 0 ? rc : json_check_fields((struct json_at){*out, "body"}, known, err);
}

/* {"error": "..."}, as OpenEnv's capture server says it. */
static void reply_error(struct reply *out, const struct err *err) {
    struct err ignored;
    buf_reset(&out->body);
    out->type = NULL;
    out->status = err_http_status(err->code);
    if (reply_json(out, out->status, json_pack("{s:o}", "error", json_text(sv_from(err->msg))),
                   &ignored) < 0) {
        buf_reset(&out->body);
    }
}

/* --- who asks --- */

static bool is_allowed(const struct capture *c, const struct exchange *x) {
    return !c->o->key || sv_eq_constant_time(sv_from(c->o->key), http1_shown_key(exchange_head(x)));
}

static bool is_under(struct sv path, struct sv top) {
    return sv_eq(path, top) || (sv_starts_with(path, top) && path.p[top.n] == '/');
}

/* Of one session only what does not speak of many. */
static bool is_ours(const struct capture *c, struct sv path) {
    if (sv_eq(path, SV("/metrics")) || sv_eq(path, SV("/health"))) {
        return true;
    }
    return is_under(path, SV("/upstreams")) || (c->o->sessions && is_under(path, SV("/sessions")));
}

size_t capture_body_max(struct exchange *x, void *capture) {
    if (!is_ours(capture, exchange_path(x))) {
        return SIZE_MAX;
    }
    return is_allowed(capture, x) ? ADMIN_BODY_MAX : 0;
}

/* --- who answers --- */

static int no_path(struct err *err) {
    return err_set(err, ERR_NOT_FOUND, "no such path");
}

static int no_method(struct reply *out, const char *allowed, struct err *err) {
    char text[96];
    (void)snprintf(text, sizeof text, "method not allowed here: want %s", allowed);
    return reply_json(out, 405, json_pack("{s:s}", "error", text), err);
}

static int answer_all(struct capture *c, const struct request_view *r, struct reply *out,
                      struct err *err) {
    if (sv_eq(r->method, SV("POST"))) {
        return sessions_create(c, r, out, err);
    }
    return sv_eq(r->method, SV("GET")) ? sessions_list(c, out, err)
                                       : no_method(out, "GET or POST", err);
}

static int answer_one(struct capture *c, struct sv id, const struct request_view *r,
                      struct reply *out, struct err *err) {
    if (sv_eq(r->method, SV("GET"))) {
        return sessions_show(c, id, out, err);
    }
    if (sv_eq(r->method, SV("PATCH"))) {
        return sessions_change(c, id, r, out, err);
    }
    return sv_eq(r->method, SV("DELETE")) ? sessions_end(c, id, r, out, err)
                                          : no_method(out, "GET, PATCH or DELETE", err);
}

/* Behind "/sessions". */
static int answer_sessions(struct capture *c, struct sv rest, const struct request_view *r,
                           struct reply *out, struct err *err) {
    if (rest.n <= 1) {
        return answer_all(c, r, out, err);
    }
    rest = sv_cut(rest, 1);
    size_t slash = sv_find(rest, SV("/"));
    struct sv id = {rest.p, slash == (size_t)-1 ? rest.n : slash};
    struct sv what = slash == (size_t)-1 ? (struct sv){0} : sv_cut(rest, slash);
    if (what.n == 0) {
        return answer_one(c, id, r, out, err);
    }
    bool lines = sv_eq(what, SV("/trace"));
    if (!lines && !sv_eq(what, SV("/trace_entries"))) {
        return no_path(err);
    }
    if (!sv_eq(r->method, SV("GET"))) {
        return no_method(out, "GET", err);
    }
    return lines ? traces_lines(c, id, out, err) : traces_entries(c, id, out, err);
}

static int answer(struct capture *c, const struct request_view *r, struct reply *out,
                  struct err *err) {
    struct sv sessions = SV("/sessions");
    bool gets = sv_eq(r->method, SV("GET"));
    if (is_under(r->path, sessions)) {
        return answer_sessions(c, sv_cut(r->path, sessions.n), r, out, err);
    }
    if (sv_eq(r->path, SV("/upstreams"))) {
        return gets                          ? upstreams_list(c, out, err)
               : sv_eq(r->method, SV("PUT")) ? upstreams_replace(c, r, out, err)
                                             : no_method(out, "GET or PUT", err);
    }
    if (!gets) {
        return no_method(out, "GET", err);
    }
    return sv_eq(r->path, SV("/metrics"))  ? metrics_show(c, out, err)
           : sv_eq(r->path, SV("/health")) ? health_show(c, r->is_allowed, out, err)
                                           : no_path(err);
}

/* --- from the loop to a thread and back --- */

struct job {
    struct capture *capture;
    struct exchange *x;
    struct loop *loop;
    struct loop_task done;
    struct request_view view;
    struct reply reply;
};

static void finish(void *arg) {
    struct job *job = arg;
    struct reply *r = &job->reply;
    exchange_reply(job->x, r->status, r->type ? sv_from(r->type) : SV("application/json"),
                   buf_sv(&r->body));
    buf_deinit(&r->body);
    free(job);
}

static void work(void *arg) {
    struct job *job = arg;
    struct err err = {0};
    if (answer(job->capture, &job->view, &job->reply, &err) < 0) {
        reply_error(&job->reply, &err);
    }
    job->done = (struct loop_task){.fn = finish, .arg = job};
    loop_post_task(job->loop, &job->done);
}

static void begin(struct capture *c, struct exchange *x) {
    struct err err = {0};
    struct job *job = calloc(1, sizeof *job);
    if (job) {
        *job = (struct job){
            .capture = c,
            .x = x,
            .loop = exchange_loop(x),
            .view = {exchange_head(x)->method, exchange_path(x), exchange_query(x),
                     exchange_body(x), is_allowed(c, x)},
        };
    }
    int rc = job ? pool_add(c->pool, work, job, &err) : err_set(&err, ERR_NOMEM, "out of memory");
    if (rc < 0) {
        free(job);
        exchange_reply_err(x, &err);
    }
}

bool capture_on_request(struct exchange *x, void *capture) {
    struct capture *c = capture;
    if (!c->ready) { /* Not even healthy: who waits for that asks a model next. */
        exchange_reply(x, 503, SV("application/json"), SV("{\"error\":\"not ready\"}"));
        return true;
    }
    if (!is_ours(c, exchange_path(x))) {
        return false;
    }
    if (is_allowed(c, x) || sv_eq(exchange_path(x), SV("/health"))) {
        begin(c, x);
    } else {
        exchange_reply(x, 401, SV("application/json"), SV("{\"error\":\"unknown admin key\"}"));
    }
    return true;
}
