/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_OPTION_H
#define SNAFFLE_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/*
 * What a command takes. One table a command is the single source of its --help, of the OPTIONS in
 * its man page (checked by a test) and of the shells' completions.
 */

enum option_kind {
    OPTION_SWITCH, /* Takes no value. */
    OPTION_TEXT,
    OPTION_WORD,   /* One of `words`. */
    OPTION_COUNT,  /* A whole number, 0 or more. */
    OPTION_NUMBER, /* A finite number, 0 or more. */
    OPTION_FILE,   /* Text that completes to files. */
    OPTION_FOLDER,
};

struct option {
    const char *name; /* "base-url"; of one letter: -n and not --n. NULL ends a table. */
    enum option_kind kind;
    const char *value;        /* What the value is called in the help: "URL". */
    const char *help;         /* One sentence, lower case, without a full stop. */
    const char *const *words; /* Of OPTION_WORD, NULL-ended. */
};

struct args;

struct command {
    const char *name;     /* "run", "agent install" */
    const char *summary;  /* What the man page's NAME line says. */
    const char *operands; /* "TASK", "NAME [VERSION]" or "" */
    size_t operands_min;
    size_t operands_max;
    const struct option *options;
    const struct option *also;        /* A further table, shared with other commands; or NULL. */
    const char *const *operand_words; /* What completes the first operand; NULL: files. */
    const char *notes;                /* Printed after the options; NULL: none. */
    bool runs_a_command;              /* After the first operand, or its "--", all are operands. */
    bool pure;                        /* Reads no settings: works beside a broken .env. */
    /* Gives the exit status, or a negative code with `err` filled. */
    int (*run)(const struct args *args, struct err *err);
};

struct option_use {
    const struct option *option;
    const char *text; /* NULL for a switch. */
};

/* A parsed command line. Its strings belong to argv. */
struct args {
    const struct command *command;
    struct option_use *uses; /* In the order given; the last one of a name counts. */
    size_t n_uses;
    const char **operands; /* NULL-ended. */
    size_t n_operands;
};

/* Checks names, values and the number of operands; ERR_USAGE says what was wrong and where the help
 * is. `argv` begins after the command's name. With "--help" in it args_has(a, "help") holds and the
 * operands are not counted. */
int args_parse(const struct command *c, size_t argc, char *const *argv, struct args *out,
               struct err *err) CHECK_RESULT;
void args_deinit(struct args *a);

bool args_has(const struct args *a, const char *name);
const char *args_text(const struct args *a, const char *name); /* NULL: not given. */
double args_number(const struct args *a, const char *name, double otherwise);
long long args_count(const struct args *a, const char *name, long long otherwise);

/* The tables of a command, by number: its own, the shared one, those of every command. An entry may
 * be NULL. */
#define OPTION_TABLES 3
const struct option *option_table(const struct command *c, int number);

/* "--" or "-". */
const char *option_dashes(const struct option *o);

/* The option of that name in the command's tables; else NULL. */
const struct option *option_find(const struct command *c, const char *name);
extern const struct option common_options[]; /* --help */

#endif
