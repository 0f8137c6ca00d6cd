/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/text.h"

#define HELP_WIDTH_MAX 100 /* Longer lines are hard to read. */
#define HELP_INDENT 2
#define HELP_FLAG_WIDTH 30 /* A longer flag has its text on the next line. */

static size_t help_width(FILE *stream) {
    size_t columns = text_columns(stream);
    return columns == 0 || columns > HELP_WIDTH_MAX ? HELP_WIDTH_MAX : columns;
}

/* Prints words from column `at` on, broken so that lines end before `width`. */
static void print_wrapped(const char *text, size_t at, size_t width, FILE *stream) {
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

/* The sentence, and for words which there are. */
static int option_text(const struct option *o, struct buf *out) {
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
    if (option_text(o, &text) == 0) {
        print_wrapped(buf_cstr(&text), HELP_FLAG_WIDTH, width, stream);
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

void commands_print_help(FILE *stream) {
    size_t width = help_width(stream);
    (void)fputs("snaffle - run coding agents in sandboxes and record every token\n\n"
                "usage: snaffle COMMAND [OPTION]... [OPERAND]...\n"
                "       snaffle --version | --help\n\ncommands:\n",
                stream);
    for (const struct command *const *c = commands; *c; c++) {
        char usage[96];
        (void)snprintf(usage, sizeof(usage), "%s%s%s", (*c)->name, *(*c)->operands ? " " : "",
                       (*c)->operands);
        (void)fprintf(stream, "%*s%-*s", HELP_INDENT, "", HELP_FLAG_WIDTH - HELP_INDENT, usage);
        print_wrapped((*c)->summary, HELP_FLAG_WIDTH, width, stream);
    }
    (void)fputs(
        "\n'snaffle COMMAND --help' tells more. Exit status: 0 good, 1 the rollout failed,\n"
        "2 bad usage or input, 3 the machine or the endpoint lacks something, 130 cancelled.\n",
        stream);
}

static json_t *option_to_json(const struct option *o) {
    AUTO_BUF struct buf text = {0};
    if (option_text(o, &text) < 0) {
        return NULL;
    }
    return json_pack("{s:s, s:s?, s:s}", "name", o->name, "value", o->value, "help",
                     buf_cstr(&text));
}

static int add_options(json_t *list, const struct command *c) {
    int r = 0;
    for (int t = 0; t < OPTION_TABLES; t++) {
        for (const struct option *o = option_table(c, t); o && o->name && r == 0; o++) {
            r = json_array_append_new(list, option_to_json(o));
        }
    }
    return r;
}

json_t *commands_to_json(void) {
    AUTO_JSON json_t *all = json_array();
    for (const struct command *const *c = commands; *c; c++) {
        AUTO_JSON json_t *options = json_array();
        if (add_options(options, *c) < 0 ||
            json_array_append_new(all, json_pack("{s:s, s:s, s:s, s:O}", "name", (*c)->name,
                                                 "summary", (*c)->summary, "operands",
                                                 (*c)->operands, "options", options)) < 0) {
            return NULL;
        }
    }
    return TAKE(all);
}
