/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store_internal.h"

static int no_memory(struct err *err) {
    return err_set(err, ERR_NOMEM, "out of memory");
}

int store_open(const char *dir, struct store **out, struct err *err) {
    struct store *s = calloc(1, sizeof *s);
    if (!s) {
        return no_memory(err);
    }
    pthread_mutex_init(&s->lock, NULL);
    s->dir = mem_strdup(dir && dir[0] ? dir : "./runs");
    int r = s->dir ? file_mkdirs(s->dir, 0777, err) : no_memory(err);
    r = r < 0 ? r : index_open(s, err);
    if (r < 0) {
        store_close(s);
        return r;
    }
    *out = s;
    return 0;
}

void store_close(struct store *s) {
    if (!s) {
        return;
    }
    index_close(s);
    files_forget(s, NULL);
    pthread_mutex_destroy(&s->lock);
    free(s->dir);
    free(s);
}

const char *store_dir(const struct store *s) {
    return s->dir;
}

char *store_journal_path(const struct store *s, const char *run) {
    return mem_printf("%s/%s/" STORE_RUN_JOURNAL, s->dir, run);
}

char *store_rollout_path(const struct store *s, const char *run, const char *rollout) {
    return mem_printf("%s/%s/%s", s->dir, run, rollout);
}

int store_make_run(struct store *s, const char *run, struct err *err) {
    AUTO_FREE char *journal = store_journal_path(s, run);
    int r = journal ? store_check_name("run", run, err) : no_memory(err);
    return r < 0 ? r : file_mkdirs(journal, 0777, err);
}

/* The rollout's folder, its names checked; the caller frees. */
static int checked_path(const struct store *s, const char *run, const char *rollout, char **out,
                        struct err *err) {
    int r = store_check_name("run", run, err);
    r = r < 0 ? r : store_check_name("rollout", rollout, err);
    if (r < 0) {
        return r;
    }
    *out = store_rollout_path(s, run, rollout);
    return *out ? 0 : no_memory(err);
}

/* The index is a convenience: what goes wrong there is said, and stops nothing. */
static void put_row(struct store *s, const struct store_row *row) {
    struct err err = {0};
    pthread_mutex_lock(&s->lock);
    int r = index_put(s, row, &err);
    pthread_mutex_unlock(&s->lock);
    if (r < 0) {
        log_warning("%s (the rollout '%s' is kept, but not listed)", err.msg, row->rollout);
    }
}

/* What `b` does not name stays as it was, if there is a row. */
static void put_open(struct store *s, const struct store_begin *b, unsigned attempt) {
    const struct store_row row = {
        .run = (char *)b->run,
        .rollout = (char *)b->rollout,
        .group = (char *)(b->group ? b->group : ""),
        .task_id = (char *)(b->task_id ? b->task_id : ""),
        .agent = (char *)(b->agent ? b->agent : ""),
        .backend = (char *)(b->backend ? b->backend : ""),
        .model = (char *)(b->model ? b->model : ""),
        .status = (char *)"open",
        .cause = (char *)"",
        .attempt = attempt,
        .started = clock_unix(),
    };
    put_row(s, &row);
}

int store_begin_rollout(struct store *s, const struct store_begin *b, struct err *err) {
    AUTO_FREE char *dir = NULL;
    int r = checked_path(s, b->run, b->rollout, &dir, err);
    r = r < 0 ? r : store_make_run(s, b->run, err);
    if (r < 0) {
        return r;
    }
    if (mkdir(dir, 0777) < 0) {
        int e = errno;
        return e == EEXIST ? err_set(err, ERR_EXISTS, "the rollout '%s/%s' is there already",
                                     b->run, b->rollout)
                           : err_sys(err, e == ENOSPC ? ERR_FULL : ERR_SYS, e,
                                     "cannot make the folder '%s'", dir);
    }
    put_open(s, b, 1);
    return 0;
}

/* Moves everything of `dir` but attempts/ into `to`. */
static int move_all(const char *dir, const char *to, struct err *err) {
    DIR *d = opendir(dir);
    if (!d) {
        return err_sys(err, ERR_SYS, errno, "cannot read the folder '%s'", dir);
    }
    int r = 0;
    const struct dirent *e;
    while (r == 0 && (e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            strcmp(e->d_name, "attempts") == 0) {
            continue;
        }
        AUTO_FREE char *from = file_join(dir, e->d_name);
        AUTO_FREE char *target = file_join(to, e->d_name);
        if (!from || !target) {
            r = no_memory(err);
        } else if (rename(from, target) < 0) {
            r = err_sys(err, ERR_SYS, errno, "cannot move '%s' to '%s'", from, target);
        }
    }
    closedir(d);
    return r;
}

int store_keep_attempt(struct store *s, const char *run, const char *rollout, unsigned attempt,
                       struct err *err) {
    AUTO_FREE char *dir = NULL;
    int r = checked_path(s, run, rollout, &dir, err);
    if (r < 0) {
        return r;
    }
    AUTO_FREE char *attempts = file_join(dir, "attempts");
    AUTO_FREE char *to = attempts ? mem_printf("%s/%u", attempts, attempt) : NULL;
    if (!to) {
        return no_memory(err);
    }
    r = file_mkdirs(attempts, 0777, err);
    if (r < 0) {
        return r;
    }
    if (mkdir(to, 0777) < 0) {
        return err_sys(err, errno == EEXIST ? ERR_EXISTS : ERR_SYS, errno,
                       "cannot make the folder '%s'", to);
    }
    files_forget(s, dir);
    r = move_all(dir, to, err);
    if (r == 0) {
        put_open(s, &(struct store_begin){.run = run, .rollout = rollout}, attempt + 1);
    }
    return r;
}

int store_put(struct store *s, const char *run, const char *rollout, const char *name,
              struct sv content, struct err *err) {
    AUTO_FREE char *dir = NULL;
    int r = checked_path(s, run, rollout, &dir, err);
    if (r < 0) {
        return r;
    }
    BUG_IF(name[0] == '.' || name[0] == '\0' || strchr(name, '/'));
    AUTO_FREE char *path = file_join(dir, name);
    return path ? file_write(path, content, 0644, err) : no_memory(err);
}

int store_put_result(struct store *s, const char *run, const char *rollout, const json_t *result,
                     struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *dir = NULL;
    int r = checked_path(s, run, rollout, &dir, err);
    if (r < 0) {
        return r;
    }
    if (json_pretty(result, &text) < 0) {
        return no_memory(err);
    }
    r = store_put(s, run, rollout, "result.json", buf_sv(&text), err);
    if (r < 0) {
        return r;
    }
    files_forget(s, dir);
    struct store_row row = {0};
    struct err why = {0};
    if (row_from_result(s, run, rollout, result, &row, &why) < 0) {
        log_warning("%s", why.msg);
        return 0;
    }
    put_row(s, &row);
    store_row_deinit(&row);
    return 0;
}

int store_index_rebuild(struct store *s, size_t *rows, struct err *err) {
    pthread_mutex_lock(&s->lock);
    int r = index_rebuild(s, rows, err);
    pthread_mutex_unlock(&s->lock);
    return r;
}
