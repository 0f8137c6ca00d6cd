/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "cli/commands.h"

/*
 * Completion scripts, written from the commands' tables. In every shell the first word after
 * "snaffle" (with the second, where there are commands of two words) picks the table.
 */

/* The first word of a command of two; 0 for others. */
static size_t first_word(const struct command *c) {
    const char *blank = strchr(c->name, ' ');
    return blank ? (size_t)(blank - c->name) : 0;
}

/* Whether `c` is the first command with its first word. */
static bool is_first_of_word(const struct command *const *c) {
    size_t n = first_word(*c);
    return n == 0 || c == commands || strncmp(c[-1]->name, (*c)->name, n + 1) != 0;
}

/* Inside single quotes; `also` holds characters that get a backslash. */
static void put_quoted(const char *text, const char *also, FILE *out) {
    for (; *text; text++) {
        if (*text == '\'') {
            (void)fputs("'\\''", out);
        } else {
            (void)fprintf(out, "%s%c", strchr(also, *text) ? "\\" : "", *text);
        }
    }
}

static void put_words(const char *const *words, FILE *out) {
    for (const char *const *w = words; w && *w; w++) {
        (void)fprintf(out, "%s%s", w == words ? "" : " ", *w);
    }
}

static void put_top_words(FILE *out) {
    for (const struct command *const *c = commands; *c; c++) {
        if (is_first_of_word(c)) {
            size_t n = first_word(*c);
            (void)fprintf(out, "%.*s ", (int)(n ? n : strlen((*c)->name)), (*c)->name);
        }
    }
    (void)fputs("--help --version", out);
}

#define FOR_OPTIONS(c, o)                                                                          \
    for (int table_ = 0; table_ < OPTION_TABLES; table_++)                                         \
        for (const struct option *o = option_table(c, table_); (o) && (o)->name; (o)++)

static void bash_values(const struct command *c, FILE *out) {
    FOR_OPTIONS(c, o) {
        if (o->kind == OPTION_SWITCH) {
            continue;
        }
        (void)fprintf(out, "    '%s %s%s') COMPREPLY=(", c->name, option_dashes(o), o->name);
        if (o->kind == OPTION_WORD) {
            (void)fputs("$(compgen -W '", out);
            put_words(o->words, out);
            (void)fputs("' -- \"$cur\")", out);
        } else if (o->kind == OPTION_FILE || o->kind == OPTION_FOLDER) {
            (void)fprintf(out, "$(compgen -%c -- \"$cur\")", o->kind == OPTION_FILE ? 'f' : 'd');
        }
        (void)fputs("); return ;;\n", out);
    }
}

static void bash_seconds(FILE *out) {
    (void)fputs("    case \"${COMP_WORDS[1]}\" in\n", out);
    for (const struct command *const *c = commands; *c; c++) {
        size_t n = first_word(*c);
        if (n == 0 || !is_first_of_word(c)) {
            continue;
        }
        (void)fprintf(out,
                      "    %.*s)\n        if [ \"$COMP_CWORD\" = 2 ]; then\n"
                      "            COMPREPLY=($(compgen -W '",
                      (int)n, (*c)->name);
        for (const struct command *const *d = c; *d && strncmp((*d)->name, (*c)->name, n + 1) == 0;
             d++) {
            (void)fprintf(out, "%s%s", d == c ? "" : " ", (*d)->name + n + 1);
        }
        (void)fputs("' -- \"$cur\"))\n            return\n        fi\n"
                    "        command=\"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" ;;\n",
                    out);
    }
    (void)fputs("    esac\n", out);
}

void completion_bash(FILE *out) {
    (void)fputs("_snaffle() {\n"
                "    local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
                "    local command=\"${COMP_WORDS[1]}\" options='' words=''\n"
                "    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W '",
                out);
    put_top_words(out);
    (void)fputs("' -- \"$cur\"))\n        return\n    fi\n", out);
    bash_seconds(out);
    (void)fputs("    case \"$command $prev\" in\n", out);
    for (const struct command *const *c = commands; *c; c++) {
        bash_values(*c, out);
    }
    (void)fputs("    esac\n    case \"$command\" in\n", out);
    for (const struct command *const *c = commands; *c; c++) {
        (void)fprintf(out, "    '%s') words='", (*c)->name);
        put_words((*c)->operand_words, out);
        (void)fputs("' options='", out);
        FOR_OPTIONS(*c, o) {
            (void)fprintf(out, "%s%s ", option_dashes(o), o->name);
        }
        (void)fputs("' ;;\n", out);
    }
    (void)fputs("    esac\n"
                "    if [ \"${cur:0:1}\" = - ]; then\n"
                "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
                "    elif [ -n \"$words\" ]; then\n"
                "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                "    else\n        COMPREPLY=($(compgen -f -- \"$cur\"))\n    fi\n}\n"
                "complete -o filenames -F _snaffle snaffle\n",
                out);
}

static void zsh_option(const struct option *o, FILE *out) {
    (void)fprintf(out, " \\\n            '%s%s%s[", option_dashes(o), o->name,
                  o->kind == OPTION_SWITCH ? ""
                  : o->name[1]             ? "="
                                           : "");
    put_quoted(o->help, "[]:", out);
    (void)fputc(']', out);
    if (o->kind != OPTION_SWITCH) {
        (void)fprintf(out, ":%s:", o->value);
    }
    if (o->kind == OPTION_WORD) {
        (void)fputc('(', out);
        put_words(o->words, out);
        (void)fputc(')', out);
    } else if (o->kind == OPTION_FILE || o->kind == OPTION_FOLDER) {
        (void)fputs(o->kind == OPTION_FILE ? "_files" : "_files -/", out);
    }
    (void)fputc('\'', out);
}

void completion_zsh(FILE *out) {
    (void)fputs("#compdef snaffle\n_snaffle() {\n    local command=\"$words[2]\"\n"
                "    local -a known=(",
                out);
    put_top_words(out);
    (void)fputs(")\n    if (( CURRENT == 2 )); then\n        compadd -a known\n        return\n"
                "    fi\n    case \"$command\" in\n",
                out);
    for (const struct command *const *c = commands; *c; c++) {
        size_t n = first_word(*c);
        if (n == 0 || !is_first_of_word(c)) {
            continue;
        }
        (void)fprintf(out, "    %.*s)\n        if (( CURRENT == 3 )); then\n            compadd",
                      (int)n, (*c)->name);
        for (const struct command *const *d = c; *d && strncmp((*d)->name, (*c)->name, n + 1) == 0;
             d++) {
            (void)fprintf(out, " %s", (*d)->name + n + 1);
        }
        (void)fputs("\n            return\n        fi\n        command=\"$words[2] $words[3]\"\n"
                    "        shift words; (( CURRENT-- )) ;;\n",
                    out);
    }
    (void)fputs("    esac\n    shift words; (( CURRENT-- ))\n    case \"$command\" in\n", out);
    for (const struct command *const *c = commands; *c; c++) {
        (void)fprintf(out, "    '%s')\n        _arguments", (*c)->name);
        FOR_OPTIONS(*c, o) {
            zsh_option(o, out);
        }
        if ((*c)->operand_words) {
            (void)fputs(" \\\n            '*: :(", out);
            put_words((*c)->operand_words, out);
            (void)fputs(")'", out);
        } else {
            (void)fputs(" \\\n            '*: :_files'", out);
        }
        (void)fputs(" ;;\n", out);
    }
    (void)fputs(
        "    esac\n}\nif [ \"$funcstack[1]\" = _snaffle ]; then\n    _snaffle \"$@\"\nelse\n"
        "    compdef _snaffle snaffle\nfi\n",
        out);
}

/* fish has other rules inside single quotes than the Bourne shells. */
static void put_fish(const char *text, FILE *out) {
    (void)fputc('\'', out);
    for (; *text; text++) {
        (void)fprintf(out, "%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    }
    (void)fputc('\'', out);
}

static void fish_option(const struct command *c, const struct option *o, FILE *out) {
    (void)fprintf(out, "complete -c snaffle -n '__snaffle_is \"%s\"' -%c %s -d ", c->name,
                  o->name[1] ? 'l' : 's', o->name);
    put_fish(o->help, out);
    if (o->kind == OPTION_WORD) {
        (void)fputs(" -x -a '", out);
        put_words(o->words, out);
        (void)fputc('\'', out);
    } else if (o->kind == OPTION_FILE || o->kind == OPTION_FOLDER) {
        (void)fputs(" -r -F", out);
    } else if (o->kind != OPTION_SWITCH) {
        (void)fputs(" -x", out);
    }
    (void)fputc('\n', out);
}

void completion_fish(FILE *out) {
    (void)fputs("function __snaffle_is\n    set -l line (commandline -opc)\n"
                "    string match -q -- \"snaffle $argv[1]*\" \"$line\"\nend\n"
                "function __snaffle_words\n    test (count (commandline -opc)) = $argv[1]\nend\n"
                "complete -c snaffle -n '__snaffle_words 1' -f -a '",
                out);
    put_top_words(out);
    (void)fputs("'\n", out);
    for (const struct command *const *c = commands; *c; c++) {
        size_t n = first_word(*c);
        if (n) {
            (void)fprintf(out,
                          "complete -c snaffle -n '__snaffle_words 2; and __snaffle_is \"%.*s\"'"
                          " -f -a '%s' -d ",
                          (int)n, (*c)->name, (*c)->name + n + 1);
            put_fish((*c)->summary, out);
            (void)fputc('\n', out);
        }
        if ((*c)->operand_words) {
            (void)fprintf(out, "complete -c snaffle -n '__snaffle_is \"%s\"' -f -a '", (*c)->name);
            put_words((*c)->operand_words, out);
            (void)fputs("'\n", out);
        }
        FOR_OPTIONS(*c, o) {
            fish_option(*c, o, out);
        }
    }
}
