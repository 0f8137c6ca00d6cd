/* SPDX-License-Identifier: BSD-3-Clause */
/* The task API of later OpenEnv servers: /list_environments, and of an environment its splits and
 * tasks. A task's split is its metadata's "split", else "train"; its index its place in the split,
 * in the order in which the list was read. */
#include <limits.h>
#include <string.h>

#include "base/json.h"
#include "server/openenv/face.h"

#define ENVIRONMENT "opencode_env"
#define TRAIN "train"

static const char *split_of(const struct task *t) {
    const char *name = json_string_value(json_object_get(t->metadata, "split"));
    return name && *name ? name : TRAIN;
}

/* The next task of the split at or after *i; NULL: no more. */
static const struct task *next_task(const struct task_list *l, const char *split, size_t *i) {
    while (*i < l->n && strcmp(split_of(&l->tasks[*i]), split) != 0) {
        ++*i;
    }
    return *i < l->n ? &l->tasks[(*i)++] : NULL;
}

static long long count(const struct task_list *l, const char *split) {
    long long n = 0;
    for (size_t i = 0; next_task(l, split, &i);) {
        n++;
    }
    return n;
}

/* Of those from `start` up to `stop`. NULL: no memory. */
static json_t *slice(const struct task_list *l, const char *split, long long start,
                     long long stop) {
    AUTO_JSON json_t *list = json_array();
    const struct task *t;
    size_t i = 0;
    for (long long at = 0; at < stop && (t = next_task(l, split, &i)); at++) {
        if (at >= start && json_array_append_new(list, task_to_json(t)) < 0) {
            return NULL;
        }
    }
    return json_incref(list);
}

static void show_splits(const struct task_list *l, struct exchange *x) {
    AUTO_JSON json_t *seen = json_object(); /* In the order of their first tasks. */
    json_t *list = json_array();
    for (size_t i = 0; i < l->n; i++) {
        const char *name = split_of(&l->tasks[i]);
        if (!json_object_get(seen, name)) {
            (void)json_object_set_new(seen, name, json_true());
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s}", "name", name, "type",
                                                  strcmp(name, TRAIN) == 0 ? TRAIN : "validation"));
        }
    }
    http_json(x, 200, list);
}

/* What a request says: a split that exists, and whole numbers. */
struct asked {
    const char *split;
    long long index, start, stop;
    long long n; /* Of the split's tasks. */
};

static bool read_asked(const struct task_list *l, struct exchange *x, const json_t *body,
                       bool wants_index, struct asked *a) {
    struct json_at at = {body, "body"};
    struct err err = {0};
    *a = (struct asked){.index = -1, .stop = LLONG_MAX};
    int r = json_get_string(at, "split", &a->split, &err);
    r = r < 0 ? r : json_get_int(at, "index", &a->index, &err);
    r = r < 0 ? r : json_get_int(at, "start", &a->start, &err);
    r = r < 0 ? r : json_get_int(at, "stop", &a->stop, &err);
    if (r == 0 && !a->split) {
        r = err_set(&err, ERR_INPUT, "body: want a split");
    }
    if (r == 0 && wants_index && !json_is_integer(json_object_get(body, "index"))) {
        r = err_set(&err, ERR_INPUT, "body: want an index");
    }
    a->n = r == 0 ? count(l, a->split) : 0;
    if (r == 0 && a->n == 0) {
        r = err_set(&err, ERR_NOT_FOUND, "no split '%.100s'", a->split);
    }
    if (r == 0 && wants_index && (a->index < 0 || a->index >= a->n)) {
        r = err_set(&err, ERR_NOT_FOUND, "no task of index %lld: '%.100s' has %lld", a->index,
                    a->split, a->n);
    }
    /* As a slice of Python's has it: from the end where negative. */
    a->start = a->start < 0 && a->start + a->n >= 0 ? a->start + a->n : a->start;
    a->stop = a->stop < 0 ? a->stop + a->n : a->stop;
    if (r < 0) {
        http_detail(x, r == ERR_NOT_FOUND ? 404 : 422, err.msg);
    }
    return r == 0;
}

static void answer(const struct task_list *l, struct exchange *x, struct sv what) {
    AUTO_JSON json_t *body = NULL;
    struct asked a;
    bool wants_one = sv_eq(what, SV("/task"));
    if (!http_body(x, /* optional= */ false, &body) || !read_asked(l, x, body, wants_one, &a)) {
        return;
    }
    if (sv_eq(what, SV("/num_tasks"))) {
        http_json(x, 200, json_pack("{s:I}", "num_tasks", (json_int_t)a.n));
    } else if (sv_eq(what, SV("/tasks"))) {
        http_json(
            x, 200,
            json_pack("{s:o, s:s}", "tasks", slice(l, a.split, 0, a.n), "env_name", ENVIRONMENT));
    } else if (sv_eq(what, SV("/task_range"))) {
        http_json(x, 200, json_pack("{s:o}", "tasks", slice(l, a.split, a.start, a.stop)));
    } else {
        AUTO_JSON json_t *one = slice(l, a.split, a.index, a.index + 1);
        http_json(x, 200, json_pack("{s:O}", "task", json_array_get(one, 0)));
    }
}

static bool is_known(struct sv what) {
    static const char *const known[] = {"/splits", "/tasks", "/num_tasks", "/task", "/task_range"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (sv_eq(what, sv_from(known[i]))) {
            return true;
        }
    }
    return false;
}

bool tasks_request(const struct openenv *e, struct exchange *x, struct sv path) {
    bool lists = sv_eq(path, SV("/list_environments"));
    struct sv rest = sv_cut(path, 1);
    size_t slash = sv_find(rest, SV("/"));
    struct sv what = slash == (size_t)-1 ? (struct sv){0} : sv_cut(rest, slash);
    if (!lists && !is_known(what)) {
        return false;
    }
    bool gets = lists || sv_eq(what, SV("/splits"));
    struct sv method = exchange_head(x)->method;
    bool is_get = sv_eq(method, SV("GET")) || sv_eq(method, SV("HEAD"));
    if (gets ? !is_get : !sv_eq(method, SV("POST"))) {
        http_detail(x, 405, "Method Not Allowed");
    } else if (lists) {
        http_json(x, 200, json_pack("[s]", ENVIRONMENT));
    } else if (!sv_eq((struct sv){rest.p, slash}, SV(ENVIRONMENT))) {
        http_detail(x, 404, "unknown environment: there is " ENVIRONMENT);
    } else if (!e->options.tasks) {
        http_detail(x, 501, "this server was given no tasks (--tasks)");
    } else if (gets) {
        show_splits(e->options.tasks, x);
    } else {
        answer(e->options.tasks, x, what);
    }
    return true;
}
