/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_STORE_INDEX_H
#define SNAFFLE_STORE_INDEX_H

#include <sqlite3.h>

#include "store/store_internal.h"

/* Between index.c and index_select.c. With the store's lock held. */

void index_finalize(sqlite3_stmt **statement);
#define STATEMENT __attribute__((cleanup(index_finalize))) sqlite3_stmt *

/* ERR_CORRUPT when the file is damaged. */
int index_failed(struct store *s, int code, struct err *err);
int index_run(struct store *s, const char *sql, struct err *err) CHECK_RESULT;
int index_prepare(struct store *s, const char *sql, sqlite3_stmt **out,
                  struct err *err) CHECK_RESULT;

int index_put_once(struct store *s, const struct store_row *row, struct err *err) CHECK_RESULT;
int index_select_once(struct store *s, const struct index_query *q, struct store_rows *out,
                      struct err *err) CHECK_RESULT;

struct rebuild {
    struct store *store;
    size_t rows;
};

#endif
