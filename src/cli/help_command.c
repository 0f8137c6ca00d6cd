/* SPDX-License-Identifier: BSD-3-Clause */
/* The help of one command. */
#include "cli/help.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/text.h"

#define HELP_WIDTH_MAX 100 /* Longer lines are hard to read. */

size_t help_width(FILE *stream) {
    size_t columns = text_columns(stream);
    return columns == 0 || columns > HELP_WIDTH_MAX ? HELP_WIDTH_MAX : columns;
}

void help_print_wrapped(const char *text, size_t at, size_t width, FILE *stream) {
    size_t column = at;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > at && column + 1 + n > width) {
            (void)fprintf(stream, "\n%*s", (int)at, "");
            column = at;
        } else if (column > at) {
            (void)fputc(' ', stream);
            column++;
        }
        (void)fprintf(stream, "%.*s", (int)n, text);
        column += n;
        text += n + strspn(text + n, " ");
    }
    (void)fputc('\n', stream);
}

int help_option_text(const struct option *o, struct buf *out) {
    int r = buf_adds(out, o->help);
    for (const char *const *w = o->kind == OPTION_WORD ? o->words : NULL; w && *w && r == 0; w++) {
        r = buf_addf(out, "%s%s", w == o->words ? " (one of: " : ", ", *w);
        if (r == 0 && !w[1]) {
            r = buf_adds(out, ")");
        }
    }
    return r;
}

static void print_option(const struct option *o, size_t width, FILE *stream) {
    AUTO_BUF struct buf text = {0};
    char flag[96];
    (void)snprintf(flag, sizeof(flag), "%s%s%s%s", option_dashes(o), o->name, o->value ? " " : "",
                   o->value ? o->value : "");
    int n = fprintf(stream, "%*s%-*s", HELP_INDENT, "", HELP_FLAG_WIDTH - HELP_INDENT, flag);
    if (n > HELP_FLAG_WIDTH || strlen(flag) + HELP_INDENT >= HELP_FLAG_WIDTH) {
        (void)fprintf(stream, "\n%*s", HELP_FLAG_WIDTH, "");
    }
    if (help_option_text(o, &text) == 0) {
        help_print_wrapped(buf_cstr(&text), HELP_FLAG_WIDTH, width, stream);
    }
}

void command_print_help(const struct command *c, FILE *stream) {
    size_t width = help_width(stream);
    (void)fprintf(stream, "snaffle %s - %s\n\nusage: snaffle %s [OPTION]...%s%s\n\noptions:\n",
                  c->name, c->summary, c->name, *c->operands ? " " : "", c->operands);
    for (int t = 0; t < OPTION_TABLES; t++) {
        for (const struct option *o = option_table(c, t); o && o->name; o++) {
            print_option(o, width, stream);
        }
    }
    if (c->notes) {
        (void)fprintf(stream, "\n%s\n", c->notes);
    }
}
