/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "store/store_internal.h"

void store_row_deinit(struct store_row *row) {
    free(row->run);
    free(row->rollout);
    free(row->group);
    free(row->task_id);
    free(row->agent);
    free(row->backend);
    free(row->model);
    free(row->status);
    free(row->cause);
    free(row->dir);
    *row = (struct store_row){0};
}

void store_rows_deinit(struct store_rows *rows) {
    for (size_t i = 0; i < rows->n; i++) {
        store_row_deinit(&rows->rows[i]);
    }
    free(rows->rows);
    *rows = (struct store_rows){0};
}

int row_add(struct store_rows *rows, struct store_row *row, struct err *err) {
    /* Grown by doubling: at each power of two. */
    if ((rows->n & (rows->n - 1)) == 0) {
        size_t cap = rows->n ? 2 * rows->n : 1;
        void *grown = realloc(rows->rows, cap * sizeof *rows->rows);
        if (!grown) {
            store_row_deinit(row);
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        rows->rows = grown;
    }
    rows->rows[rows->n++] = *row;
    *row = (struct store_row){0};
    return 0;
}

/* A string field, "" if there is none. Gives; NULL: no memory. */
static char *text_of(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return mem_strdup(text ? text : "");
}

static double number_of(const json_t *object, const char *field) {
    return json_number_value(json_object_get(object, field)); /* 0 if it is none. */
}

static long long count_tokens(const json_t *result) {
    const json_t *said = json_object_get(result, "completion_tokens");
    const json_t *turns = json_object_get(result, "proxy_turns");
    size_t i;
    const json_t *turn;
    size_t n = 0;
    if (json_is_integer(said)) {
        return json_integer_value(said);
    }
    json_array_foreach(turns, i, turn) {
        n += json_array_size(json_object_get(turn, "completion_token_ids"));
    }
    return (long long)n;
}

static int check(struct store_row *row, struct err *err) {
    if (row->run && row->rollout && row->group && row->task_id && row->agent && row->backend &&
        row->model && row->status && row->cause && row->dir) {
        return 0;
    }
    store_row_deinit(row);
    return err_set(err, ERR_NOMEM, "out of memory");
}

int row_from_result(const struct store *s, const char *run, const char *rollout,
                    const json_t *result, struct store_row *out, struct err *err) {
    const json_t *reward = json_object_get(result, "reward");
    double attempt = number_of(result, "attempt");
    struct store_row row = {
        .run = mem_strdup(run),
        .rollout = mem_strdup(rollout),
        .group = text_of(result, "group"),
        .task_id = text_of(result, "task_id"),
        .agent = text_of(result, "agent"),
        .backend = text_of(result, "backend"),
        .model = text_of(result, "model"),
        .status = text_of(result, "status"),
        .cause = text_of(result, "cause"),
        .dir = store_rollout_path(s, run, rollout),
        .attempt = attempt >= 1 && attempt <= 1e6 ? (unsigned)attempt : 1,
        .has_reward = json_is_number(reward),
        .reward = json_number_value(reward),
        .started = number_of(result, "started"),
        .wall_s = number_of(result, "wall_s"),
        .turns = (long long)json_array_size(json_object_get(result, "proxy_turns")),
        .completion_tokens = count_tokens(result),
    };
    int r = check(&row, err);
    if (r == 0) {
        *out = row;
    }
    return r;
}

/* When the rollout began, as far as the folder tells: its task was written first. */
static double began(const char *dir) {
    struct stat st;
    AUTO_FREE char *task = file_join(dir, "task.json");
    bool there = task && stat(task, &st) == 0;
    return there || stat(dir, &st) == 0 ? (double)st.st_mtime : 0;
}

int row_from_folder(const struct store *s, const char *run, const char *rollout,
                    struct store_row *out, struct err *err) {
    AUTO_FREE char *dir = store_rollout_path(s, run, rollout);
    AUTO_FREE char *result_path = dir ? file_join(dir, "result.json") : NULL;
    AUTO_FREE char *task_path = dir ? file_join(dir, "task.json") : NULL;
    AUTO_JSON json_t *json = NULL;
    struct stat st;
    if (!result_path || !task_path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_NOT_FOUND, "there is no folder '%s'", dir);
    }
    bool ended = json_load(result_path, RESULT_BYTES_MAX, &json, NULL) == 0;
    if (!ended && json_load(task_path, RESULT_BYTES_MAX, &json, NULL) < 0) {
        json = NULL; /* Nothing is known but that it began. */
    }
    struct store_row row = {0};
    int r = row_from_result(s, run, rollout, json, &row, err);
    if (r < 0) {
        return r;
    }
    if (row.started <= 0) {
        row.started = began(dir);
    }
    if (!ended) {
        free(row.status);
        row.status = mem_strdup("open");
    }
    r = check(&row, err);
    if (r == 0) {
        *out = row;
    }
    return r;
}

json_t *store_row_to_json(const struct store_row *row) {
    AUTO_JSON json_t *reward = row->has_reward ? json_real(row->reward) : json_null();
    if (!reward) {
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:O, s:f, s:f, s:I, s:I, "
                     "s:s}",
                     "run", row->run, "rollout", row->rollout, "group", row->group, "attempt",
                     (int)row->attempt, "task_id", row->task_id, "agent", row->agent, "backend",
                     row->backend, "model", row->model, "status", row->status, "cause", row->cause,
                     "reward", reward, "started", row->started, "wall_s", row->wall_s, "turns",
                     (json_int_t)row->turns, "completion_tokens",
                     (json_int_t)row->completion_tokens, "dir", row->dir);
}
