/* SPDX-License-Identifier: BSD-3-Clause */
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/env.h"
#include "cli/commands.h"
#include "cli/out.h"
#include "cli/text.h"
#include "cli/version.h"

/* One line, harmless on a terminal whatever a task or a server put into it. */
static int complain(const struct err *err) {
    AUTO_BUF struct buf line = {0};
    const char *text = text_printable(sv_from(err->msg), &line) < 0 ? err->msg : buf_cstr(&line);
    (void)fflush(stdout);
    (void)fprintf(stderr, "snaffle: error: %s\n", text);
    return err_exit_status(err->code);
}

/* The second words of commands such as "agent install". */
static int unknown_command(size_t argc, char *const *argv, struct err *err) {
    AUTO_BUF struct buf seconds = {0};
    size_t n = strlen(argv[0]);
    for (const struct command *const *c = commands; *c; c++) {
        if (strncmp((*c)->name, argv[0], n) == 0 && (*c)->name[n] == ' ' &&
            buf_addf(&seconds, "%s%s", seconds.len ? ", " : "", (*c)->name) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    if (seconds.len && argc > 1) {
        return err_set(err, ERR_USAGE, "no command '%s %s' (there are: %s)", argv[0], argv[1],
                       buf_cstr(&seconds));
    }
    if (seconds.len) {
        return err_set(err, ERR_USAGE, "%s: want one of: %s", argv[0], buf_cstr(&seconds));
    }
    return err_set(err, ERR_USAGE, "no command '%s' (see 'snaffle help')", argv[0]);
}

static int run_command(size_t argc, char *const *argv, struct err *err) {
    size_t words = 0;
    if (argc == 0) {
        commands_print_help(stderr);
        return err_exit_status(ERR_USAGE);
    }
    if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0) {
        version_print(stdout);
        return 0;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0) {
        commands_print_help(stdout);
        return 0;
    }
    const struct command *c = command_find(argc, argv, &words);
    if (!c) {
        return unknown_command(argc, argv, err);
    }
    struct args args = {0};
    int r = args_parse(c, argc - words, argv + words, &args, err);
    if (r < 0) {
        return r;
    }
    if (args_has(&args, "help")) {
        command_print_help(c, stdout);
    } else {
        r = c->pure ? 0 : env_load_dotenv(".env", err);
        r = r < 0 ? r : c->run(&args, err);
    }
    args_deinit(&args);
    return r;
}

int main(int argc, char **argv) {
    struct err err = {0};
    /* Only for the widths of characters; numbers stay as they are in C. */
    if (!setlocale(LC_CTYPE, "C.UTF-8")) {
        (void)setlocale(LC_CTYPE, "");
    }
    int r = run_command(argc > 0 ? (size_t)argc - 1 : 0, argv + 1, &err);
    if (r >= 0) {
        int end = out_finish(&err);
        r = end < 0 ? end : r;
    }
    return r < 0 ? complain(&err) : r;
}
