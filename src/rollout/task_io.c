/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/task.h"
#include "rollout/task_files.h"

#define READ_STEP 65536 /* What a pipe holds. */

int task_parse(struct sv text, const char *name, const char *id, struct task *out,
               struct err *err) {
    AUTO_JSON json_t *value = NULL;
    int r = json_parse(text, name, &value, err);
    return r < 0 ? r : task_from_json(value, name, id, out, err);
}

static int read_stdin(struct buf *out, struct err *err) {
    for (;;) {
        if (buf_reserve(out, READ_STEP) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        ssize_t n =
            fd_read_some(STDIN_FILENO, out->data + out->len, READ_STEP, DEADLINE_NEVER, NULL, err);
        if (n <= 0) {
            return n < 0 ? err_wrap(err, "stdin") : 0;
        }
        out->len += (size_t)n;
        out->data[out->len] = '\0';
        if (out->len > TASK_BYTES_MAX) {
            return err_set(err, ERR_INPUT, "stdin: the task is larger than %u MiB",
                           TASK_BYTES_MAX >> 20);
        }
    }
}

/* The last name of a path, without slashes at its end and without ".json"; the caller frees. */
static char *base_name(const char *path) {
    struct sv v = sv_from(path);
    while (v.n > 1 && v.p[v.n - 1] == '/') {
        v.n--;
    }
    for (size_t i = v.n; i > 0; i--) {
        if (v.p[i - 1] == '/') {
            v = sv_cut(v, i);
            break;
        }
    }
    if (sv_ends_with(v, SV(".json")) && v.n > 5) {
        v.n -= 5;
    }
    v.n = v.n > TASK_ID_MAX ? TASK_ID_MAX : v.n;
    return mem_strndup(v.p, v.n);
}

/* The id of the task in `path`: for a folder, and for its task.json, the folder's name. */
static char *id_of(const char *path) {
    struct sv v = sv_from(path);
    AUTO_FREE char *folder = NULL;
    if (sv_eq(v, SV("task.json"))) {
        folder = mem_strdup(".");
    } else if (sv_ends_with(v, SV("/task.json"))) {
        folder = mem_strndup(v.p, v.n - strlen("/task.json"));
    } else {
        return base_name(path);
    }
    /* "." and ".." have a name only when resolved. */
    AUTO_FREE char *real = folder ? realpath(folder[0] ? folder : "/", NULL) : NULL;
    return base_name(real && real[1] ? real : "task");
}

int task_load(const char *path, struct task *out, struct err *err) {
    AUTO_BUF struct buf text = {0};
    if (strcmp(path, "-") == 0) {
        int r = read_stdin(&text, err);
        return r < 0 ? r : task_parse(buf_sv(&text), "stdin", "stdin", out, err);
    }
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    AUTO_FREE char *file = folder ? file_join(path, "task.json") : mem_strdup(path);
    AUTO_FREE char *id = file ? id_of(file) : NULL;
    if (!id) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    struct err cause = {0};
    if (file_read(file, TASK_BYTES_MAX, &text, &cause) < 0) {
        return err_set(err, ERR_INPUT,
                       "%s (give a task file, a folder that holds task.json, or '-' for stdin)",
                       cause.msg);
    }
    return task_parse(buf_sv(&text), file, id, out, err);
}

char *task_file_path(const struct task_file *f, const char *home) {
    if (f->path[0] == '/') {
        return mem_strdup(f->path);
    }
    return mem_printf("%s/workdir/%s", home, f->path);
}

static json_t *strings(char *const *list, size_t n) {
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(array, json_string(list[i])) < 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

/* Sets a field; takes `value`, and keeps *failed if there is none. */
static void set(json_t *object, const char *field, json_t *value, bool *failed) {
    *failed = json_object_set_new(object, field, value) < 0 || *failed;
}

static json_t *network_to_json(const struct task *t, bool *failed) {
    static const char *const phases[] = {"setup", "agent", "verify"};
    static const char *const words[] = {"none", "model", "full"};
    json_t *network = json_object();
    for (int i = 0; i < TASK_PHASES; i++) {
        if (t->network[i].given) {
            set(network, phases[i], json_string(words[t->network[i].word]), failed);
        }
    }
    return network;
}

static json_t *limits_to_json(const struct task_limits *l, bool *failed) {
    const struct {
        const char *field;
        double seconds;
        long count;
    } all[] = {{"setup_s", l->setup_s, 0},     {"agent_s", l->agent_s, 0},
               {"verify_s", l->verify_s, 0},   {"memory_mb", 0, l->memory_mb},
               {"processes", 0, l->processes}, {"disk_mb", 0, l->disk_mb}};
    json_t *limits = json_object();
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (all[i].seconds > 0) {
            set(limits, all[i].field, json_real(all[i].seconds), failed);
        } else if (all[i].count > 0) {
            set(limits, all[i].field, json_integer(all[i].count), failed);
        }
    }
    return limits;
}

/* Sets a field unless its object is empty. */
static void set_unless_empty(json_t *object, const char *field, json_t *value, bool *failed) {
    if (value && json_object_size(value) == 0) {
        json_decref(value);
        return;
    }
    set(object, field, value, failed);
}

json_t *task_to_json(const struct task *t) {
    bool failed = false;
    AUTO_JSON json_t *task = json_object();
    set(task, "task_id", json_string(t->id), &failed);
    set(task, "instruction", json_string(t->instruction), &failed);
    if (t->n_setup > 0) {
        set(task, "setup", strings(t->setup, t->n_setup), &failed);
    }
    if (t->n_verify > 0) {
        set(task, "verify", strings(t->verify, t->n_verify), &failed);
    }
    set_unless_empty(task, "files", task_files_to_json(t->files, t->n_files), &failed);
    set_unless_empty(task, "verify_files", task_files_to_json(t->verify_files, t->n_verify_files),
                     &failed);
    set_unless_empty(task, "network", network_to_json(t, &failed), &failed);
    set_unless_empty(task, "limits", limits_to_json(&t->limits, &failed), &failed);
    /* A copy, so that the rollouts of a task, side by side, share no count of references. */
    set_unless_empty(task, "metadata", json_deep_copy(t->metadata), &failed);
    return failed ? NULL : TAKE(task);
}
