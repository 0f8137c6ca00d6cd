/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_STORE_STORE_INTERNAL_H
#define SNAFFLE_STORE_STORE_INTERNAL_H

#include <pthread.h>

#include "store/store.h"

#define RESULT_BYTES_MAX                                                                           \
    (256u << 20) /* Of result.json: turns, files and ids of a long rollout.                        \
                  */

struct sqlite3;
struct file_count;

struct store {
    char *dir;
    pthread_mutex_t lock; /* Guards all below. */
    struct sqlite3 *db;   /* NULL: a repair failed; calls say so. */
    struct file_count *counts;
};

/* index.c: the calls below are made with the lock held; they repair a damaged index once. */
int index_open(struct store *s, struct err *err) CHECK_RESULT;
void index_close(struct store *s);
int index_put(struct store *s, const struct store_row *row, struct err *err) CHECK_RESULT;

/* Rows for a query's text, its values bound in order; `limit` 0: all. */
struct index_query {
    const char *where; /* "run = ? AND ..."; "": all. */
    const char *values[8];
    unsigned n_values;
    unsigned limit;
};
int index_select(struct store *s, const struct index_query *q, struct store_rows *out,
                 struct err *err) CHECK_RESULT;

/* Replaces all rows by what is in the folders. */
int index_rebuild(struct store *s, size_t *rows, struct err *err) CHECK_RESULT;

/* row.c */
int row_from_result(const struct store *s, const char *run, const char *rollout,
                    const json_t *result, struct store_row *out, struct err *err) CHECK_RESULT;
/* From result.json, or from what there is of a rollout without one. ERR_NOT_FOUND: no such folder.
 */
int row_from_folder(const struct store *s, const char *run, const char *rollout,
                    struct store_row *out, struct err *err) CHECK_RESULT;
int row_add(struct store_rows *rows, struct store_row *row,
            struct err *err) CHECK_RESULT; /* Takes. */

/* scan.c: calls `found` for each rollout's folder. */
typedef int (*scan_fn)(void *arg, const char *run, const char *rollout, struct err *err);
int scan_rollouts(const struct store *s, scan_fn found, void *arg, struct err *err) CHECK_RESULT;

/* files.c: forgets how many files of the rollout were kept. */
void files_forget(struct store *s, const char *dir);

bool name_is_good(const char *name);

#endif
