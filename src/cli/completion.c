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

/* A word may be a command and begin others: it is offered once. */
static bool is_new_word(const struct command *const *c, size_t n) {
    for (const struct command *const *d = commands; d < c; d++) {
        size_t m = first_word(*d) ? first_word(*d) : strlen((*d)->name);
        if (m == n && strncmp((*d)->name, (*c)->name, n) == 0) {
            return false;
        }
    }
    return true;
}

static void put_top_words(FILE *out) {
    for (const struct command *const *c = commands; *c; c++) {
        size_t n = first_word(*c) ? first_word(*c) : strlen((*c)->name);
        if (is_new_word(c, n)) {
            (void)fprintf(out, "%.*s ", (int)n, (*c)->name);
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

/* Of the commands of two words whose first is that of *c; a command may have that word alone. */
static void put_second_words(const struct command *const *c, const char *between, FILE *out) {
    size_t n = first_word(*c);
    for (const struct command *const *d = c; *d && strncmp((*d)->name, (*c)->name, n + 1) == 0;
         d++) {
        (void)fprintf(out, "%s%s", d == c ? "" : between, (*d)->name + n + 1);
    }
}

static void bash_seconds(FILE *out) {
    (void)fputs("    case \"${COMP_WORDS[1]}\" in\n", out);
    for (const struct command *const *c = commands; *c; c++) {
        size_t n = first_word(*c);
        if (n == 0 || !is_first_of_word(c)) {
            continue;
        }
        (void)fprintf(
            out,
            "    %.*s)\n        if [ \"$COMP_CWORD\" = 2 ] && [ \"${cur:0:1}\" != - ]; then\n"
            "            COMPREPLY=($(compgen -W '",
            (int)n, (*c)->name);
        put_second_words(c, " ", out);
        (void)fputs("' -- \"$cur\"))\n            return\n        fi\n"
                    "        case \"${COMP_WORDS[2]}\" in\n        ",
                    out);
        put_second_words(c, " | ", out);
        (void)fputs(") command=\"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" ;;\n        esac ;;\n", out);
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
                "_snaffle_gateway() {\n"
                "    COMP_WORDS=(snaffle gateway \"${COMP_WORDS[@]:1}\")\n"
                "    COMP_CWORD=$((COMP_CWORD + 1))\n    _snaffle\n}\n"
                "complete -o filenames -F _snaffle snaffle\n"
                "complete -o filenames -F _snaffle_gateway snaffle-gateway\n",
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
    (void)fputs("#compdef snaffle snaffle-gateway\n_snaffle() {\n"
                "    if [[ $service = snaffle-gateway ]]; then\n"
                "        words=(snaffle gateway \"${(@)words[2,-1]}\"); (( CURRENT++ ))\n    fi\n"
                "    local command=\"$words[2]\"\n"
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
        (void)fprintf(out,
                      "    %.*s)\n        if (( CURRENT == 3 )) && [[ $words[3] != -* ]]; then\n"
                      "            compadd ",
                      (int)n, (*c)->name);
        put_second_words(c, " ", out);
        (void)fputs("\n            return\n        fi\n        case \"$words[3]\" in\n        ",
                    out);
        put_second_words(c, " | ", out);
        (void)fputs(
            ") command=\"$words[2] $words[3]\"\n            shift words; (( CURRENT-- )) ;;\n"
            "        esac ;;\n",
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
        "    compdef _snaffle snaffle snaffle-gateway\nfi\n",
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

/* `condition`: the program, and when. */
static void fish_option(const char *condition, const struct option *o, FILE *out) {
    (void)fprintf(out, "complete -c %s -%c %s -d ", condition, o->name[1] ? 'l' : 's', o->name);
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
        char condition[96];
        (void)snprintf(condition, sizeof condition, "snaffle -n '__snaffle_is \"%s\"'", (*c)->name);
        FOR_OPTIONS(*c, o) {
            fish_option(condition, o, out);
        }
    }
    FOR_OPTIONS(&cmd_gateway, o) {
        fish_option("snaffle-gateway", o, out);
    }
}
