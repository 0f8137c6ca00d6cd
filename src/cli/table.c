/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/table.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/text.h"

#define GAP 2 /* Blanks between columns. */
#define ELLIPSIS "\xe2\x80\xa6"

void table_init(struct table *t, const struct table_column *columns, size_t n_columns) {
    BUG_IF(n_columns > TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns, .n_columns = n_columns};
}

void table_deinit(struct table *t) {
    for (size_t i = 0; i < t->n_cells; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    table_init(t, t->columns, t->n_columns);
}

void table_add(struct table *t, struct sv text) {
    AUTO_BUF struct buf b = {0};
    if (t->n_cells == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        char **grown = reallocarray(t->cells, cap, sizeof(*grown));
        if (!grown) {
            t->failed = true;
            return;
        }
        t->cells = grown;
        t->cap = cap;
    }
    char *cell = text_printable(text, &b) < 0 ? NULL : mem_strdup(buf_cstr(&b));
    if (!cell) {
        t->failed = true;
        return;
    }
    t->cells[t->n_cells++] = cell;
}

void table_addf(struct table *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    AUTO_FREE char *text = mem_vprintf(fmt, args);
    va_end(args);
    if (text) {
        table_add(t, sv_from(text));
    }
    t->failed |= !text;
}

static size_t natural_width(const struct table *t, size_t column) {
    size_t width = text_width(sv_from(t->columns[column].title));
    for (size_t i = column; i < t->n_cells; i += t->n_columns) {
        size_t w = text_width(sv_from(t->cells[i]));
        width = w > width ? w : width;
    }
    return width;
}

/* Takes columns away from the widest that may be cut, one by one, until the row fits. */
static void fit(const struct table *t, size_t *widths, size_t columns) {
    size_t total = (t->n_columns - 1) * GAP;
    for (size_t i = 0; i < t->n_columns; i++) {
        total += widths[i];
    }
    while (total > columns) {
        size_t widest = t->n_columns;
        for (size_t i = 0; i < t->n_columns; i++) {
            if (t->columns[i].may_cut && widths[i] > TABLE_CUT_MIN &&
                (widest == t->n_columns || widths[i] > widths[widest])) {
                widest = i;
            }
        }
        if (widest == t->n_columns) {
            return;
        }
        widths[widest]--;
        total--;
    }
}

static void print_cell(const struct table *t, size_t column, const char *text, size_t width,
                       FILE *stream) {
    struct sv v = sv_from(text);
    size_t natural = text_width(v);
    bool cut = natural > width;
    if (cut) {
        v = text_front(v, width - 1);
        natural = text_width(v) + 1;
    }
    int blanks = (int)(width - natural);
    bool last = column + 1 == t->n_columns;
    bool right = t->columns[column].right;
    (void)fprintf(stream, "%*s%.*s%s%*s", right ? blanks : 0, "", SV_ARG(v), cut ? ELLIPSIS : "",
                  right || last ? 0 : blanks, "");
    (void)fprintf(stream, "%*s", last ? 0 : GAP, "");
}

int table_print(const struct table *t, FILE *stream, size_t columns, struct err *err) {
    size_t widths[TABLE_COLUMNS_MAX] = {0};
    if (t->failed) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    BUG_IF(t->n_cells % t->n_columns != 0);
    for (size_t i = 0; i < t->n_columns; i++) {
        widths[i] = natural_width(t, i);
    }
    columns = columns ? columns : text_columns(stream);
    if (columns) {
        fit(t, widths, columns);
    }
    bool colour = text_has_colour(stream);
    (void)fputs(colour ? "\x1b[1m" : "", stream);
    for (size_t i = 0; i < t->n_columns; i++) {
        print_cell(t, i, t->columns[i].title, widths[i], stream);
    }
    (void)fputs(colour ? "\x1b[0m\n" : "\n", stream);
    for (size_t i = 0; i < t->n_cells; i++) {
        size_t column = i % t->n_columns;
        print_cell(t, column, t->cells[i], widths[column], stream);
        if (column + 1 == t->n_columns) {
            (void)fputc('\n', stream);
        }
    }
    return 0;
}
