/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/task_list.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "rollout/task_where.h"

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

void task_list_deinit(struct task_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        task_deinit(&l->tasks[i]);
        free(l->sources[i]);
    }
    free(l->tasks);
    free(l->sources);
    *l = (struct task_list){0};
}

static int grow(struct task_list *l) {
    size_t cap = l->cap ? 2 * l->cap : 16;
    void *tasks = realloc(l->tasks, cap * sizeof *l->tasks);
    if (!tasks) {
        return ERR_NOMEM;
    }
    l->tasks = tasks;
    void *sources = realloc(l->sources, cap * sizeof *l->sources);
    if (!sources) {
        return ERR_NOMEM;
    }
    l->sources = sources;
    l->cap = cap;
    return 0;
}

/* Takes the task, also when it fails. */
static int add(struct task_list *l, struct task *t, const char *source, struct err *err) {
    int r = 0;
    AUTO_FREE char *copy = mem_strdup(source);
    if (l->n == TASK_LIST_MAX) {
        r = err_set(err, ERR_INPUT, "there are more than %d tasks (divide them)", TASK_LIST_MAX);
    } else if (!copy || (l->n == l->cap && grow(l) < 0)) {
        r = no_memory(err);
    }
    if (r < 0) {
        task_deinit(t);
        return r;
    }
    l->sources[l->n] = TAKE(copy);
    l->tasks[l->n++] = *t;
    return 0;
}

static bool is_lines(const char *path) {
    return sv_ends_with(sv_from(path), SV(".jsonl")) || sv_ends_with(sv_from(path), SV(".ndjson"));
}

/* "a/tasks.jsonl" -> "tasks": what ids begin with where tasks have none. The caller frees. */
static char *stem(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return mem_strndup(name, (size_t)(strrchr(name, '.') - name));
}

static int add_line(struct task_list *l, const char *path, const char *base, unsigned long line,
                    struct sv text, struct err *err) {
    struct task t = {0};
    AUTO_FREE char *where = mem_printf("%s:%lu", path, line);
    AUTO_FREE char *id = mem_printf("%s-%lu", base, line);
    if (!where || !id) {
        return no_memory(err);
    }
    int r = task_parse(text, where, id, &t, err);
    return r < 0 ? r : add(l, &t, where, err);
}

static int load_lines(const char *path, struct task_list *l, struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *base = stem(path);
    if (!base) {
        return no_memory(err);
    }
    struct err why = {0};
    int r = file_read(path, TASK_LIST_BYTES_MAX, &text, &why);
    if (r < 0) {
        return err_set(err, r == ERR_NOMEM ? r : ERR_INPUT, "%s", why.msg);
    }
    struct sv rest = buf_sv(&text);
    for (unsigned long line = 1; rest.n > 0 && r == 0; line++) {
        size_t n = sv_find(rest, SV("\n"));
        n = n == (size_t)-1 ? rest.n : n;
        struct sv one = sv_trim((struct sv){rest.p, n});
        one.n -= one.n > 0 && one.p[one.n - 1] == '\r';
        r = one.n > 0 ? add_line(l, path, base, line, one, err) : 0;
        rest = sv_cut(rest, n < rest.n ? n + 1 : n);
    }
    return r;
}

static int add_path(struct task_list *l, const char *path, struct err *err) {
    struct task t = {0};
    int r = task_load(path, &t, err);
    return r < 0 ? r : add(l, &t, path, err);
}

/* Whether the entry of a folder of tasks is one: a JSON file, or a folder with task.json. */
static bool is_task(const char *path) {
    struct stat st;
    if (stat(path, &st) < 0) {
        return false;
    }
    if (!S_ISDIR(st.st_mode)) {
        return S_ISREG(st.st_mode) && sv_ends_with(sv_from(path), SV(".json"));
    }
    AUTO_FREE char *inside = file_join(path, "task.json");
    return inside && file_exists(inside);
}

static int is_shown(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static int load_folder(const char *path, struct task_list *l, struct err *err) {
    struct dirent **names = NULL;
    int n = scandir(path, &names, is_shown, alphasort);
    int r = 0;
    if (n < 0) {
        return err_sys(err, ERR_INPUT, errno, "cannot read the folder '%s'", path);
    }
    for (int i = 0; i < n; i++) {
        AUTO_FREE char *entry = r == 0 ? file_join(path, names[i]->d_name) : NULL;
        if (r == 0) {
            r = !entry ? no_memory(err) : is_task(entry) ? add_path(l, entry, err) : 0;
        }
        free(names[i]);
    }
    free(names);
    return r;
}

static int load_any(const char *path, struct task_list *l, struct err *err) {
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return is_lines(path) ? load_lines(path, l, err) : add_path(l, path, err);
    }
    AUTO_FREE char *single = file_join(path, "task.json");
    if (!single) {
        return no_memory(err);
    }
    return file_exists(single) ? add_path(l, path, err) : load_folder(path, l, err);
}

static int by_id(const void *a, const void *b) {
    const struct task *const *x = a;
    const struct task *const *y = b;
    int order = strcmp((*x)->id, (*y)->id);
    return order ? order : (*x > *y) - (*x < *y);
}

static int check_ids(const struct task_list *l, struct err *err) {
    AUTO_FREE const struct task **sorted =
        calloc(l->n + 1, sizeof *sorted); // NOLINT(bugprone-sizeof-expression): pointers
    if (!sorted) {
        return no_memory(err);
    }
    for (size_t i = 0; i < l->n; i++) {
        sorted[i] = &l->tasks[i];
    }
    qsort(sorted, l->n, sizeof *sorted, by_id); // NOLINT(bugprone-sizeof-expression): pointers
    for (size_t i = 1; i < l->n; i++) {
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0) {
            return err_set(err, ERR_INPUT, "%s: task_id '%s' is that of %s too (give each its own)",
                           l->sources[sorted[i] - l->tasks], sorted[i]->id,
                           l->sources[sorted[i - 1] - l->tasks]);
        }
    }
    return 0;
}

int task_list_load(const char *path, struct task_list *out, struct err *err) {
    struct task_list l = {0};
    int r = load_any(path, &l, err);
    if (r == 0 && l.n == 0) {
        r = err_set(err, ERR_INPUT,
                    "%s: holds no task (want one JSON task a line, or folders with task.json)",
                    path);
    }
    r = r < 0 ? r : check_ids(&l, err);
    if (r < 0) {
        task_list_deinit(&l);
        return r;
    }
    *out = l;
    return 0;
}

static bool all_hold(const struct task *t, const char *const *where, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!task_where_matches(t, where[i])) {
            return false;
        }
    }
    return true;
}

int task_list_filter(struct task_list *l, const char *const *where, size_t n, struct err *err) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        int r = task_where_check(where[i], err);
        if (r < 0) {
            return r;
        }
    }
    for (size_t i = 0; i < l->n; i++) {
        if (all_hold(&l->tasks[i], where, n)) {
            struct task t = l->tasks[i];
            char *source = TAKE(l->sources[i]);
            l->tasks[i] = (struct task){0};
            l->tasks[kept] = t;
            l->sources[kept++] = source;
        } else {
            task_deinit(&l->tasks[i]);
            free(l->sources[i]);
            l->sources[i] = NULL;
        }
    }
    size_t all = l->n;
    l->n = kept;
    return kept > 0
               ? 0
               : err_set(err, ERR_INPUT, "where: none of the %zu tasks meets the conditions", all);
}
