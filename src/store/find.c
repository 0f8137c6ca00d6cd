/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store_internal.h"

#define SHOWN 4 /* Candidates in the message about an ambiguous name. */

/* The row of an open rollout whose result is there, from its folder. */
static int renew_row(struct store *s, const struct store_row *open, struct err *err) {
    struct store_row row = {0};
    AUTO_FREE char *result = file_join(open->dir, "result.json");
    if (!result || !file_exists(result)) {
        return 0;
    }
    int r = row_from_folder(s, open->run, open->rollout, &row, err);
    r = r < 0 ? r : index_put(s, &row, err);
    store_row_deinit(&row);
    return r;
}

/* A process that was killed between a result and its row left the row open. With the lock held. */
static void renew_open(struct store *s) {
    struct err err = {0};
    struct store_rows open = {0};
    int r = index_select(s, &(struct index_query){.where = "status = 'open'"}, &open, &err);
    for (size_t i = 0; r == 0 && i < open.n; i++) {
        r = renew_row(s, &open.rows[i], &err);
    }
    store_rows_deinit(&open);
    if (r < 0) {
        log_debug("%s", err.msg); /* What cannot be renewed is listed as it was. */
    }
}

static int select_rows(struct store *s, const struct index_query *q, struct store_rows *out,
                       struct err *err) {
    pthread_mutex_lock(&s->lock);
    renew_open(s);
    int r = index_select(s, q, out, err);
    pthread_mutex_unlock(&s->lock);
    return r;
}

int store_list(struct store *s, const struct store_query *q, struct store_rows *out,
               struct err *err) {
    const struct {
        const char *column;
        const char *value;
    } filters[] = {{"run", q->run},
                   {"\"group\"", q->group},
                   {"status", q->status},
                   {"cause", q->cause},
                   {"task_id", q->task_id}};
    AUTO_BUF struct buf where = {0};
    struct index_query query = {.limit = q->limit};
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        if (!filters[i].value) {
            continue;
        }
        if (buf_addf(&where, "%s%s = ?", where.len ? " AND " : "", filters[i].column) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        query.values[query.n_values++] = filters[i].value;
    }
    query.where = buf_cstr(&where);
    return select_rows(s, &query, out, err);
}

static int ambiguous(const char *name, const struct store_rows *rows, struct err *err) {
    AUTO_BUF struct buf list = {0};
    for (size_t i = 0; i < rows->n && i < SHOWN; i++) {
        if (buf_addf(&list, "%s%s/%s", i ? ", " : "", rows->rows[i].run, rows->rows[i].rollout) <
            0) {
            break;
        }
    }
    return err_set(err, ERR_INPUT, "'%s' fits several rollouts: %s%s (give more of the name)", name,
                   buf_cstr(&list), rows->n > SHOWN ? " ..." : "");
}

/* The one row of the query in *out: 1; none: 0; several: an error. */
static int find_one(struct store *s, const struct index_query *q, const char *name,
                    struct store_row *out, struct err *err) {
    struct store_rows rows = {0};
    int r = select_rows(s, q, &rows, err);
    if (r == 0 && rows.n == 1) {
        *out = rows.rows[0];
        rows.rows[0] = (struct store_row){0};
        r = 1;
    } else if (r == 0 && rows.n > 1) {
        r = ambiguous(name, &rows, err);
    }
    store_rows_deinit(&rows);
    return r;
}

/* "runs/a/b/" as a shell completes it, "a/b": without the store's folder and slashes around. */
static char *plain_name(const struct store *s, const char *name) {
    struct sv v = sv_from(name);
    struct sv dir = sv_from(s->dir);
    struct sv bare = sv_starts_with(dir, SV("./")) ? sv_cut(dir, 2) : dir;
    struct sv const dirs[] = {dir, bare};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (sv_starts_with(v, dirs[i]) && v.n > dirs[i].n && v.p[dirs[i].n] == '/') {
            v = sv_cut(v, dirs[i].n + 1);
            break;
        }
    }
    while (v.n > 0 && v.p[v.n - 1] == '/') {
        v.n--;
    }
    return mem_strndup(v.p, v.n);
}

/* A rollout that the index does not know: by its folder. 1, 0 or an error. */
static int find_folder(struct store *s, const char *name, struct store_row *out, struct err *err) {
    AUTO_FREE char *run = mem_strdup(name);
    char *slash = run ? strchr(run, '/') : NULL;
    if (!slash) {
        return 0;
    }
    *slash = '\0';
    const char *rollout = slash + 1;
    if (!name_is_good(run) || !name_is_good(rollout) || strcmp(rollout, STORE_RUN_JOURNAL) == 0) {
        return 0;
    }
    int r = row_from_folder(s, run, rollout, out, err);
    return r == ERR_NOT_FOUND ? 0 : r < 0 ? r : 1;
}

int store_find(struct store *s, const char *name, struct store_row *out, struct err *err) {
    AUTO_FREE char *plain = plain_name(s, name);
    if (!plain) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    const struct index_query steps[] = {
        {.where = "run || '/' || rollout = ?", .values = {plain}, .n_values = 1},
        {.where = "rollout = ?", .values = {plain}, .n_values = 1},
        {.where = "substr(run || '/' || rollout, 1, length(?1)) = ?1 OR "
                  "substr(rollout, 1, length(?1)) = ?1",
         .values = {plain},
         .n_values = 1,
         .limit = SHOWN + 1},
    };
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(steps) && r == 0 && plain[0]; i++) {
        r = find_one(s, &steps[i], name, out, err);
        if (r == 0 && i == 0) {
            r = find_folder(s, plain, out, err);
        }
        if (r == 0 && i == 1 && strcmp(plain, "last") == 0) {
            r = find_one(s, &(struct index_query){.where = "", .limit = 1}, name, out, err);
        }
    }
    if (r == 0) {
        return err_set(err, ERR_NOT_FOUND, "no rollout '%s' in '%s' (snaffle ls lists them)", name,
                       s->dir);
    }
    return r < 0 ? r : 0;
}
