/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/help.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"

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
        help_print_wrapped((*c)->summary, HELP_FLAG_WIDTH, width, stream);
    }
    (void)fputs(
        "\n'snaffle COMMAND --help' tells more. Exit status: 0 good, 1 the rollout failed,\n"
        "2 bad usage or input, 3 the machine or the endpoint lacks something, 130 cancelled.\n",
        stream);
}

static json_t *option_to_json(const struct option *o) {
    AUTO_BUF struct buf text = {0};
    if (help_option_text(o, &text) < 0) {
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
