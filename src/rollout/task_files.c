/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/task_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rollout/task_path.h"

void task_files_free(struct task_file *files, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(files[i].path);
        free(files[i].bytes);
    }
    free(files);
}

static int add_file(struct json_at at, const char *field, const char *path, const json_t *text,
                    struct task_file *out, struct err *err) {
    AUTO_FREE char *where = mem_printf("%s: %s", at.where, field);
    AUTO_FREE char *clean = NULL;
    if (!where) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = task_path_clean(where, path, &clean, err);
    if (r < 0) {
        return r;
    }
    if (!json_is_string(text)) {
        return err_set(err, ERR_INPUT, "%s: '%s': want the file's text, got %s", where, path,
                       json_kind(text));
    }
    size_t n = json_string_length(text);
    if (n > TASK_FILE_BYTES_MAX) {
        return err_set(err, ERR_INPUT,
                       "%s: '%s' is larger than %u MiB (fetch it in a setup command)", where, path,
                       TASK_FILE_BYTES_MAX >> 20);
    }
    char *bytes = malloc(n + 1);
    if (!bytes) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    memcpy(bytes, json_string_value(text), n);
    bytes[n] = '\0';
    *out = (struct task_file){.path = TAKE(clean), .bytes = bytes, .n = n};
    return 0;
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool listed(char *const *sorted, size_t n, const char *path) {
    return bsearch(&path, sorted, n, sizeof *sorted, by_path) != NULL;
}

/* Whether a folder that `path` needs is one of the files; then *folder (the caller frees). */
static bool needs_file_as_folder(char *const *sorted, size_t n, const char *path, char **folder) {
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        char *parent = mem_strndup(path, (size_t)(slash - path));
        if (parent && listed(sorted, n, parent)) {
            *folder = parent;
            return true;
        }
        free(parent);
    }
    return false;
}

static int check_together(struct json_at at, const char *field, const struct task_file *files,
                          size_t n, struct err *err) {
    AUTO_FREE char **sorted = calloc(n, sizeof *sorted);
    if (!sorted) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = files[i].path;
    }
    qsort(sorted, n, sizeof *sorted, by_path);
    for (size_t i = 0; i < n; i++) {
        AUTO_FREE char *folder = NULL;
        if (i > 0 && strcmp(sorted[i - 1], sorted[i]) == 0) {
            return err_set(err, ERR_INPUT, "%s: %s: '%s' is there twice (keep one)", at.where,
                           field, sorted[i]);
        }
        if (needs_file_as_folder(sorted, n, sorted[i], &folder)) {
            return err_set(err, ERR_INPUT, "%s: %s: '%s' is a file, and a folder in '%s'", at.where,
                           field, folder, sorted[i]);
        }
    }
    return 0;
}

int task_files_read(struct json_at at, const char *field, struct task_file **files, size_t *n,
                    struct err *err) {
    const json_t *object = NULL;
    int r = json_get_object(at, field, &object, err);
    size_t more = json_object_size(object);
    if (r < 0 || more == 0) {
        return r;
    }
    if (*n + more > TASK_FILES_MAX) {
        return err_set(err, ERR_INPUT, "%s: %s: more than %d files (make them in a setup command)",
                       at.where, field, TASK_FILES_MAX);
    }
    struct task_file *grown = realloc(*files, (*n + more) * sizeof *grown);
    if (!grown) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *files = grown;
    const char *path;
    json_t *text;
    json_object_foreach((json_t *)object, path, text) {
        r = add_file(at, field, path, text, &grown[*n], err);
        if (r < 0) {
            return r;
        }
        ++*n;
    }
    return check_together(at, field, grown, *n, err);
}

json_t *task_files_to_json(const struct task_file *files, size_t n) {
    json_t *object = json_object();
    for (size_t i = 0; i < n; i++) {
        json_t *text = json_text((struct sv){files[i].bytes, files[i].n});
        if (json_object_set_new(object, files[i].path, text) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}
