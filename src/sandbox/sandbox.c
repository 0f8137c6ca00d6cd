/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/sandbox.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* The contract's outer face: checks what no backend should have to, then hands on. */

#define LABEL_MAX 63 /* What providers allow, and a file name with room to spare. */

static const struct sandbox_backend *const backends[] = {&sandbox_local, &sandbox_hf};
const char *const sandbox_backend_names[] = {"local", "hf", NULL};

const struct sandbox_backend *sandbox_backend_find(const char *name) {
    for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
        if (strcmp(backends[i]->name, name) == 0) {
            return backends[i];
        }
    }
    return NULL;
}

void sandbox_output_deinit(struct sandbox_output *o) {
    buf_deinit(&o->out);
    buf_deinit(&o->err);
    *o = (struct sandbox_output){0};
}

static bool is_label(const char *text) {
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;
    return n > 0 && n <= LABEL_MAX && text[n] == '\0' && strchr(first, text[0]);
}

static int check_label(const char *what, const char *text, struct err *err) {
    if (is_label(text)) {
        return 0;
    }
    return err_set(err, ERR_INPUT,
                   "%s '%s' is no label (lower-case letters, digits and '-', at most %d)", what,
                   text ? text : "", LABEL_MAX);
}

static int check_limits(const struct sandbox_limits *l, struct err *err) {
    /* A quarter of the memory is /tmp's: below this nothing starts. */
    const long memory_mb_min = 32;
    if (l->memory_mb < 0 || l->processes < 0 || l->disk_mb < 0 ||
        (l->memory_mb > 0 && l->memory_mb < memory_mb_min) || l->memory_mb > (1L << 30)) {
        return err_set(err, ERR_INPUT,
                       "limits of %ld MB memory, %ld processes, %ld MB disk can't be set",
                       l->memory_mb, l->processes, l->disk_mb);
    }
    return 0;
}

static int check_spec(const struct sandbox_spec *spec, struct err *err) {
    int r = check_label("owner", spec->owner, err);
    if (r == 0) {
        r = check_label("run", spec->run, err);
    }
    if (r == 0) {
        r = check_label("rollout", spec->rollout, err);
    }
    return r < 0 ? r : check_limits(&spec->limits, err);
}

int sandbox_create(const struct sandbox_backend *backend, const struct sandbox_spec *spec,
                   deadline_ms until, const struct cancel *cancel, struct sandbox **out,
                   struct err *err) {
    int r = check_spec(spec, err);
    return r < 0 ? r : backend->create(spec, until, cancel, out, err);
}

int sandbox_restart(struct sandbox *s, const struct sandbox_spec *spec, deadline_ms until,
                    const struct cancel *cancel, struct err *err) {
    int r = check_spec(spec, err);
    return r < 0 ? r : s->ops->restart(s, spec, until, cancel, err);
}

int sandbox_carry_home(struct sandbox *from, struct sandbox *to, deadline_ms until,
                       const struct cancel *cancel, struct err *err) {
    if (!from->ops->carry_home || from->ops != to->ops) {
        return err_set(err, ERR_UNSUPPORTED, "a home can't be carried between these sandboxes");
    }
    return from->ops->carry_home(from, to, until, cancel, err);
}

const char *sandbox_id(const struct sandbox *s) {
    return s->id;
}

const char *sandbox_home(const struct sandbox *s) {
    return s->home;
}

static int check_env(const char *const *env, struct err *err) {
    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        if (!equals || equals == *env) {
            /* Not the whole entry: what follows a forgotten name may be a secret. */
            return err_set(err, ERR_INPUT, "an environment entry has no 'NAME=' at its front");
        }
    }
    return 0;
}

static int check_exec(const struct sandbox_exec *what, struct err *err) {
    if (!what->shell == !what->argv) {
        return err_set(err, ERR_INPUT, "a command wants either shell text or words");
    }
    if (what->argv && (!what->argv[0] || !what->argv[0][0])) {
        return err_set(err, ERR_INPUT, "a command's first word is empty");
    }
    if (isnan(what->timeout_s) || what->timeout_s < 0) {
        return err_set(err, ERR_INPUT, "a time-out of %g s can't be kept", what->timeout_s);
    }
    return check_env(what->env, err);
}

/* Whether the entry of a list is what the user calls so. */
static bool is_called(const json_t *box, const char *name) {
    const char *id = json_string_value(json_object_get(box, "id"));
    const char *run = json_string_value(json_object_get(box, "run"));
    const char *rollout = json_string_value(json_object_get(box, "rollout"));
    const char *slash = strchr(name, '/');
    if (id && *name && strncmp(id, name, strlen(name)) == 0) {
        return true;
    }
    if (!run || !rollout || !json_is_true(json_object_get(box, "alive"))) {
        return false;
    }
    return slash ? strncmp(run, name, (size_t)(slash - name)) == 0 && run[slash - name] == '\0' &&
                       strcmp(rollout, slash + 1) == 0
                 : strcmp(rollout, name) == 0;
}

int sandbox_find(const struct sandbox_backend *backend, const struct sandbox_scope *scope,
                 const char *name, json_t **out, struct err *err) {
    AUTO_JSON json_t *all = NULL;
    json_t *found = NULL;
    json_t *box = NULL;
    size_t i = 0;
    int r = backend->list(scope, &all, err);
    if (r < 0) {
        return r;
    }
    json_array_foreach(all, i, box) {
        if (!is_called(box, name)) {
            continue;
        }
        if (found) {
            return err_set(err, ERR_INPUT, "'%.80s' is more than one sandbox: %s, %s (give an id)",
                           name, json_string_value(json_object_get(found, "id")),
                           json_string_value(json_object_get(box, "id")));
        }
        found = box;
    }
    if (!found) {
        return err_set(err, ERR_NOT_FOUND, "no sandbox '%.80s' ('snaffle sandbox ls' lists them)",
                       name);
    }
    *out = json_incref(found);
    return 0;
}

int sandbox_exec(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_output *out,
                 struct err *err) {
    int r = check_exec(what, err);
    if (r == 0 && (what->stdout_path || what->stderr_path)) {
        r = err_set(err, ERR_INPUT, "only a started command's output goes to files");
    }
    return r < 0 ? r : s->ops->exec(s, what, out, err);
}

int sandbox_exec_in(const struct sandbox_backend *backend, const char *id,
                    const struct sandbox_exec *what, struct sandbox_output *out, struct err *err) {
    int r = check_exec(what, err);
    return r < 0 ? r : backend->exec_in(id, what, out, err);
}

int sandbox_kill_in(const struct sandbox_backend *backend, const char *id, bool *was_alive,
                    struct err *err) {
    return backend->kill_in(id, was_alive, err);
}

int sandbox_start(struct sandbox *s, const struct sandbox_exec *what, struct sandbox_job **out,
                  struct err *err) {
    int r = check_exec(what, err);
    return r < 0 ? r : s->ops->start(s, what, out, err);
}

int sandbox_job_wait(struct sandbox_job *job, deadline_ms until, const struct cancel *cancel,
                     int *exit_code, struct err *err) {
    return job->sandbox->ops->job_wait(job, until, cancel, exit_code, err);
}

int sandbox_job_kill(struct sandbox_job *job, struct err *err) {
    return job->sandbox->ops->job_kill(job, err);
}

void sandbox_job_free(struct sandbox_job *job) {
    if (job) {
        job->sandbox->ops->job_free(job);
    }
}

int sandbox_kill_all(struct sandbox *s, deadline_ms until, struct err *err) {
    return s->ops->kill_all(s, until, err);
}

static int check_path(const char *path, struct err *err) {
    return path && path[0] ? 0 : err_set(err, ERR_INPUT, "a path inside the sandbox is empty");
}

int sandbox_write_file(struct sandbox *s, const char *path, struct sv content, unsigned mode,
                       struct err *err) {
    int r = check_path(path, err);
    if (r == 0 && (mode & ~0777u) != 0) {
        r = err_set(err, ERR_INPUT, "mode 0%o of '%s' has more than permissions", mode, path);
    }
    return r < 0 ? r : s->ops->write_file(s, path, content, mode, err);
}

int sandbox_read_file(struct sandbox *s, const char *path, uint64_t offset, size_t length,
                      struct buf *out, struct err *err) {
    int r = check_path(path, err);
    return r < 0 ? r : s->ops->read_file(s, path, offset, length, out, err);
}

int sandbox_exists(struct sandbox *s, const char *path, struct err *err) {
    int r = check_path(path, err);
    return r < 0 ? r : s->ops->exists(s, path, err);
}

const char *sandbox_model_socket(const struct sandbox *s) {
    return s->ops->model_socket(s);
}

const json_t *sandbox_image_env(const struct sandbox *s) {
    return s->ops->image_env ? s->ops->image_env(s) : NULL;
}

json_t *sandbox_isolation(const struct sandbox *s) {
    return s->ops->isolation(s);
}

int sandbox_limits_hit(struct sandbox *s, json_t **out, struct err *err) {
    if (s->ops->limits_hit) {
        return s->ops->limits_hit(s, out, err);
    }
    *out = json_object();
    return *out ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int sandbox_kill(struct sandbox *s, struct err *err) {
    return s->ops->kill(s, err);
}

void sandbox_free(struct sandbox *s) {
    if (s) {
        s->ops->free(s);
    }
}
