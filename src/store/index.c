/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#define BUSY_MS 10000 /* Another process's rebuild of many thousand rollouts. */
#define VERSION 1     /* Of the table; kept in the file. */

#define TABLE                                                                                      \
    "CREATE TABLE IF NOT EXISTS rollouts (run TEXT NOT NULL, rollout TEXT NOT NULL, "              \
    "\"group\" TEXT NOT NULL, attempt INTEGER NOT NULL, task_id TEXT NOT NULL, "                   \
    "agent TEXT NOT NULL, backend TEXT NOT NULL, model TEXT NOT NULL, status TEXT NOT NULL, "      \
    "cause TEXT NOT NULL, reward REAL, started REAL NOT NULL, wall_s REAL NOT NULL, "              \
    "turns INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, "                                 \
    "PRIMARY KEY (run, rollout)) WITHOUT ROWID;"                                                   \
    "CREATE INDEX IF NOT EXISTS rollouts_by_start ON rollouts (started);"

#define PUT                                                                                        \
    "INSERT INTO rollouts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "   \
    "?15) ON CONFLICT (run, rollout) DO UPDATE SET attempt = excluded.attempt, "                   \
    "\"group\" = ifnull(nullif(excluded.\"group\", ''), \"group\"), "                              \
    "task_id = ifnull(nullif(excluded.task_id, ''), task_id), "                                    \
    "agent = ifnull(nullif(excluded.agent, ''), agent), "                                          \
    "backend = ifnull(nullif(excluded.backend, ''), backend), "                                    \
    "model = ifnull(nullif(excluded.model, ''), model), status = excluded.status, "                \
    "cause = excluded.cause, reward = excluded.reward, "                                           \
    "started = iif(excluded.started > 0, excluded.started, started), "                             \
    "wall_s = excluded.wall_s, turns = excluded.turns, "                                           \
    "completion_tokens = excluded.completion_tokens"

int index_failed(struct store *s, int code, struct err *err) {
    int kind = code & 0xff;
    const char *text = s->db ? sqlite3_errmsg(s->db) : sqlite3_errstr(code);
    bool damaged = kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB;
    return err_set(err,
                   damaged                ? ERR_CORRUPT
                   : kind == SQLITE_FULL  ? ERR_FULL
                   : kind == SQLITE_NOMEM ? ERR_NOMEM
                                          : ERR_SYS,
                   "the index '%s/index.db': %s", s->dir, text);
}

int index_run(struct store *s, const char *sql, struct err *err) {
    int code = s->db ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_CANTOPEN;
    return code == SQLITE_OK ? 0 : index_failed(s, code, err);
}

int index_prepare(struct store *s, const char *sql, sqlite3_stmt **out, struct err *err) {
    int code = s->db ? sqlite3_prepare_v2(s->db, sql, -1, out, NULL) : SQLITE_CANTOPEN;
    return code == SQLITE_OK ? 0 : index_failed(s, code, err);
}

void index_finalize(sqlite3_stmt **statement) {
    sqlite3_finalize(*statement);
}

void index_close(struct store *s) {
    sqlite3_close(s->db);
    s->db = NULL;
}

static int version_of(struct store *s, int *version, struct err *err) {
    STATEMENT statement = NULL;
    int r = index_prepare(s, "PRAGMA user_version", &statement, err);
    if (r < 0) {
        return r;
    }
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        return index_failed(s, code, err);
    }
    *version = sqlite3_column_int(statement, 0);
    return 0;
}

/* Opens the file, and fills it if it is new. */
static int open_file(struct store *s, struct err *err) {
    AUTO_FREE char *path = file_join(s->dir, "index.db");
    int version = 0;
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int code = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code != SQLITE_OK) {
        return index_failed(s, code, err);
    }
    sqlite3_busy_timeout(s->db, BUSY_MS);
    int r = index_run(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", err);
    r = r < 0 ? r : version_of(s, &version, err);
    if (r == 0 && version > VERSION) {
        return err_set(err, ERR_UNSUPPORTED,
                       "the index '%s' is of a newer snaffle (remove it, and it is built anew)",
                       path);
    }
    return r < 0 || version == VERSION ? r : index_rebuild(s, NULL, err);
}

/* One process at a time makes or replaces the file; the lock goes with the descriptor. */
static int lock_folder(const struct store *s) {
    int fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) < 0 && errno == EINTR) {
    }
    return fd;
}

static void remove_file(const struct store *s) {
    static const char *const names[] = {"index.db", "index.db-wal", "index.db-shm"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        AUTO_FREE char *path = file_join(s->dir, names[i]);
        if (path) {
            unlink(path);
        }
    }
}

int index_open(struct store *s, struct err *err) {
    AUTO_CLOSE int lock = lock_folder(s);
    int r = open_file(s, err);
    if (r == ERR_CORRUPT) {
        log_warning("%s; it is built anew", err ? err->msg : "the index is damaged");
        index_close(s);
        remove_file(s);
        r = open_file(s, err);
    }
    if (r < 0) {
        index_close(s);
    }
    return r;
}

/* After damage met in use: a new file from the folders. */
static int reopen(struct store *s, struct err *err) {
    index_close(s);
    AUTO_CLOSE int lock = lock_folder(s);
    remove_file(s);
    return open_file(s, err);
}

static void bind_text(sqlite3_stmt *statement, int at, const char *text) {
    sqlite3_bind_text(statement, at, text ? text : "", -1, SQLITE_TRANSIENT);
}

int index_put_once(struct store *s, const struct store_row *row, struct err *err) {
    STATEMENT put = NULL;
    int r = index_prepare(s, PUT, &put, err);
    if (r < 0) {
        return r;
    }
    bind_text(put, 1, row->run);
    bind_text(put, 2, row->rollout);
    bind_text(put, 3, row->group);
    sqlite3_bind_int64(put, 4, row->attempt);
    bind_text(put, 5, row->task_id);
    bind_text(put, 6, row->agent);
    bind_text(put, 7, row->backend);
    bind_text(put, 8, row->model);
    bind_text(put, 9, row->status);
    bind_text(put, 10, row->cause);
    if (row->has_reward) {
        sqlite3_bind_double(put, 11, row->reward);
    }
    sqlite3_bind_double(put, 12, row->started);
    sqlite3_bind_double(put, 13, row->wall_s);
    sqlite3_bind_int64(put, 14, row->turns);
    sqlite3_bind_int64(put, 15, row->completion_tokens);
    int code = sqlite3_step(put);
    return code == SQLITE_DONE ? 0 : index_failed(s, code, err);
}

int index_put(struct store *s, const struct store_row *row, struct err *err) {
    int r = index_put_once(s, row, err);
    if (r != ERR_CORRUPT) {
        return r;
    }
    r = reopen(s, err);
    return r < 0 ? r : index_put_once(s, row, err);
}

int index_select(struct store *s, const struct index_query *q, struct store_rows *out,
                 struct err *err) {
    int r = index_select_once(s, q, out, err);
    if (r != ERR_CORRUPT) {
        return r;
    }
    r = reopen(s, err);
    return r < 0 ? r : index_select_once(s, q, out, err);
}

static int add_found(void *arg, const char *run, const char *rollout, struct err *err) {
    struct rebuild *b = arg;
    struct store_row row = {0};
    int r = row_from_folder(b->store, run, rollout, &row, err);
    if (r == ERR_NOT_FOUND) {
        return 0; /* Removed while we look. */
    }
    r = r < 0 ? r : index_put_once(b->store, &row, err);
    store_row_deinit(&row);
    b->rows += r == 0;
    return r;
}

int index_rebuild(struct store *s, size_t *rows, struct err *err) {
    struct rebuild b = {.store = s};
    int r = index_run(s, "BEGIN IMMEDIATE; DROP TABLE IF EXISTS rollouts; " TABLE, err);
    r = r < 0 ? r : scan_rollouts(s, add_found, &b, err);
    r = r < 0 ? r : index_run(s, "PRAGMA user_version = 1; COMMIT", err);
    if (r < 0) {
        struct err ignored; /* The first error is told. */
        if (index_run(s, "ROLLBACK", &ignored) < 0) {
            log_debug("%s", ignored.msg);
        }
        return r;
    }
    if (rows) {
        *rows = b.rows;
    }
    return 0;
}
