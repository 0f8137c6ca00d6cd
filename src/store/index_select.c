/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "store/index.h"

#define SELECT                                                                                     \
    "SELECT run, rollout, \"group\", attempt, task_id, agent, backend, model, status, cause, "     \
    "reward, started, wall_s, turns, completion_tokens FROM rollouts "

static char *text_at(sqlite3_stmt *statement, int column) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    return mem_strdup(text ? (const char *)text : "");
}

static int take_row(struct store *s, sqlite3_stmt *in, struct store_rows *out, struct err *err) {
    struct store_row row = {
        .run = text_at(in, 0),
        .rollout = text_at(in, 1),
        .group = text_at(in, 2),
        .attempt = (unsigned)sqlite3_column_int64(in, 3),
        .task_id = text_at(in, 4),
        .agent = text_at(in, 5),
        .backend = text_at(in, 6),
        .model = text_at(in, 7),
        .status = text_at(in, 8),
        .cause = text_at(in, 9),
        .has_reward = sqlite3_column_type(in, 10) != SQLITE_NULL,
        .reward = sqlite3_column_double(in, 10),
        .started = sqlite3_column_double(in, 11),
        .wall_s = sqlite3_column_double(in, 12),
        .turns = sqlite3_column_int64(in, 13),
        .completion_tokens = sqlite3_column_int64(in, 14),
    };
    if (row.run && row.rollout) {
        row.dir = store_rollout_path(s, row.run, row.rollout);
    }
    if (!row.dir || !row.group || !row.task_id || !row.agent || !row.backend || !row.model ||
        !row.status || !row.cause) {
        store_row_deinit(&row);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    return row_add(out, &row, err);
}

int index_select_once(struct store *s, const struct index_query *q, struct store_rows *out,
                      struct err *err) {
    STATEMENT statement = NULL;
    AUTO_FREE char *sql =
        mem_printf(SELECT "%s%s ORDER BY started DESC, run DESC, rollout DESC LIMIT %d",
                   q->where[0] ? "WHERE " : "", q->where, q->limit ? (int)q->limit : -1);
    if (!sql) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = index_prepare(s, sql, &statement, err);
    for (unsigned i = 0; i < q->n_values && r == 0; i++) {
        sqlite3_bind_text(statement, (int)i + 1, q->values[i], -1, SQLITE_STATIC);
    }
    struct store_rows rows = {0};
    while (r == 0) {
        int code = sqlite3_step(statement);
        if (code == SQLITE_DONE) {
            *out = rows;
            return 0;
        }
        r = code == SQLITE_ROW ? take_row(s, statement, &rows, err) : index_failed(s, code, err);
    }
    store_rows_deinit(&rows);
    return r;
}
