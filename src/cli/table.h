/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_TABLE_H
#define SNAFFLE_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "base/sv.h"

/*
 * A table of text. Cells are made harmless (text_printable) when added; printing pads them, and
 * cuts those columns that may be cut until a row fits the terminal.
 *
 *     table_init(&t, columns, ARRAY_LEN(columns));
 *     table_addf(&t, "%d", turn);        (row by row, cell by cell)
 *     table_print(&t, stdout);
 */

#define TABLE_COLUMNS_MAX 16

struct table_column {
    const char *title;
    bool right;   /* Numbers. */
    bool may_cut; /* With "…", down to TABLE_CUT_MIN columns. */
};

#define TABLE_CUT_MIN 8 /* Enough of an id or a word to be recognised. */

struct table {
    const struct table_column *columns;
    size_t n_columns;
    char **cells; /* Row after row. */
    size_t n_cells;
    size_t cap;
    bool failed; /* Out of memory; told by table_print. */
};

void table_init(struct table *t, const struct table_column *columns, size_t n_columns);
void table_deinit(struct table *t);
void table_add(struct table *t, struct sv text);
void table_addf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Fits to the terminal behind `stream`; `columns` other than 0 stands for its width. */
int table_print(const struct table *t, FILE *stream, size_t columns, struct err *err) CHECK_RESULT;

#endif
