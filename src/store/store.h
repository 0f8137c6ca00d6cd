/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_STORE_STORE_H
#define SNAFFLE_STORE_STORE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/sv.h"
#include "journal/sweep.h"

/*
 * Where runs are kept:
 *
 *     runs/index.db                              SQLite; can be rebuilt from the folders
 *     runs/<run>/journal/                        the gateway's journal
 *     runs/<run>/<rollout>/task.json result.json trace.jsonl agent.log gateway.log files/
 *     runs/<run>/<rollout>/attempts/N/           the same of earlier attempts
 *
 * Any number of processes may use one store. A store may be used by any thread. The index is a
 * convenience: a rollout is whole without it.
 */

#define STORE_NAME_MAX 63           /* [a-z0-9][a-z0-9-]{0,62}: fits a DNS label and a column. */
#define STORE_RUN_JOURNAL "journal" /* Not allowed as a rollout's name. */

struct store;

/* `dir` NULL: "./runs". Makes the folder and the index; a damaged index is rebuilt. */
int store_open(const char *dir, struct store **out, struct err *err) CHECK_RESULT;
void store_close(struct store *s); /* Accepts NULL. */
const char *store_dir(const struct store *s);

/* ERR_INPUT naming `what` ("run", "rollout", "group") if it is no good name. */
int store_check_name(const char *what, const char *name, struct err *err) CHECK_RESULT;

/* "20261130-013105-4fa1c2": date and time (UTC) and a random end. */
void store_new_run_name(char out[STORE_NAME_MAX + 1]);

/* A good name from any text and an index: "binary_search", 3 -> "binary-search-3". */
void store_name_from(const char *text, unsigned index, char out[STORE_NAME_MAX + 1]);

/* Paths, given to the caller, NULL: no memory. Nothing is made. */
char *store_journal_path(const struct store *s, const char *run);
char *store_rollout_path(const struct store *s, const char *run, const char *rollout);

/* Makes runs/<run>/journal; an existing one is success. */
int store_make_run(struct store *s, const char *run, struct err *err) CHECK_RESULT;

struct store_begin {
    const char *run;
    const char *rollout;
    const char *group; /* NULL: none. */
    const char *task_id;
    const char *agent;
    const char *backend;
    const char *model;
};

/* Makes the rollout's folder, which must be new (ERR_EXISTS), and its row with status "open". */
int store_begin_rollout(struct store *s, const struct store_begin *b, struct err *err) CHECK_RESULT;

/* Moves all there is of attempt N into attempts/N/, so that the next begins in an empty folder. */
int store_keep_attempt(struct store *s, const char *run, const char *rollout, unsigned attempt,
                       struct err *err) CHECK_RESULT;

/* Writes one of the rollout's own files (task.json, agent.log ...) whole or not at all. */
int store_put(struct store *s, const char *run, const char *rollout, const char *name,
              struct sv content, struct err *err) CHECK_RESULT;

/* Writes result.json, and the row from it (fields as result.json names them; `model`, `started`
 * (unix seconds) and `completion_tokens` are taken if present, else worked out). */
int store_put_result(struct store *s, const char *run, const char *rollout, const json_t *result,
                     struct err *err) CHECK_RESULT;

#define STORE_FILES_MAX 4096             /* Files of one rollout kept under files/. */
#define STORE_FILE_BYTES_MAX (64u << 20) /* One of them. */
#define STORE_FILE_DEPTH_MAX 16          /* Folders in a name. */

/* Writes files/<name>, where `name` comes from the sandbox and is not trusted: relative, no "..",
 * no NUL, no part over 255 bytes; else ERR_INPUT and nothing is written. Follows no link. */
int store_put_file(struct store *s, const char *run, const char *rollout, struct sv name,
                   struct sv content, struct err *err) CHECK_RESULT;

/* A row of the index. Owned strings; "" where nothing is known. */
struct store_row {
    char *run;
    char *rollout;
    char *group;
    char *task_id;
    char *agent;
    char *backend;
    char *model;
    char *status; /* ok, failed, cancelled; "open": begun, without a result. */
    char *cause;
    char *dir; /* The rollout's folder: the store's and <run>/<rollout>. */
    unsigned attempt;
    bool has_reward;
    double reward;
    double started; /* Seconds since 1970. */
    double wall_s;
    long long turns;
    long long completion_tokens;
};

struct store_rows {
    struct store_row *rows;
    size_t n;
};

struct store_query { /* NULL and 0: all. */
    const char *run;
    const char *group;
    const char *status;
    const char *cause;
    const char *task_id;
    unsigned limit;
};

/* Newest first. */
int store_list(struct store *s, const struct store_query *q, struct store_rows *out,
               struct err *err) CHECK_RESULT;

/* By "run/rollout", a rollout's full name, or a prefix of either that fits one only. ERR_NOT_FOUND
 * and ERR_INPUT (ambiguous; the message shows candidates). Out of several full matches in other
 * runs: ambiguous too. "last": the newest. */
int store_find(struct store *s, const char *name, struct store_row *out,
               struct err *err) CHECK_RESULT;

/* Reads every folder again and replaces the index; *rows (may be NULL): how many there are. */
int store_index_rebuild(struct store *s, size_t *rows, struct err *err) CHECK_RESULT;

/* Sweeps the journals of a run, or of all (NULL), as journal/sweep.h says. `dir` NULL: "./runs";
 * one that is not there is success. No store has to be open. */
int store_sweep_journals(const char *dir, const char *run, bool dry, struct journal_swept *out,
                         struct err *err) CHECK_RESULT;

json_t *store_row_to_json(const struct store_row *row); /* NULL: no memory. */
void store_row_deinit(struct store_row *row);
void store_rows_deinit(struct store_rows *rows);

#endif
