/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/option.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sv.h"

/* More options than any command has; for the list of names that a misspelling is compared with. */
#define OPTION_NAMES_MAX 96

const struct option common_options[] = {
    {"help", OPTION_SWITCH, NULL, "print this help and exit", NULL},
    {0},
};

const struct option *option_table(const struct command *c, int number) {
    return number == 0 ? c->options : number == 1 ? c->also : common_options;
}

const char *option_dashes(const struct option *o) {
    return o->name[1] ? "--" : "-";
}

const struct option *option_find(const struct command *c, const char *name) {
    for (int t = 0; t < OPTION_TABLES; t++) {
        for (const struct option *o = option_table(c, t); o && o->name; o++) {
            if (strcmp(o->name, name) == 0) {
                return o;
            }
        }
    }
    return NULL;
}

static int unknown_option(const struct command *c, const char *name, struct err *err) {
    const char *names[OPTION_NAMES_MAX + 1] = {0};
    size_t n = 0;
    for (int t = 0; t < OPTION_TABLES; t++) {
        for (const struct option *o = option_table(c, t); o && o->name && n < OPTION_NAMES_MAX;
             o++) {
            names[n++] = o->name;
        }
    }
    const char *near = json_nearest(name, names);
    if (near) {
        return err_set(err, ERR_USAGE, "%s: unknown option '--%s' (did you mean '--%s'?)", c->name,
                       name, near);
    }
    return err_set(err, ERR_USAGE, "%s: unknown option '--%s' (see 'snaffle %s --help')", c->name,
                   name, c->name);
}

static bool is_word_of(const char *text, const char *const *words) {
    for (; *words; words++) {
        if (strcmp(*words, text) == 0) {
            return true;
        }
    }
    return false;
}

static int bad_word(const struct command *c, const struct option *o, const char *text,
                    struct err *err) {
    char list[256] = "";
    size_t used = 0;
    for (const char *const *w = o->words; *w && used < sizeof(list); w++) {
        int n = snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", *w);
        used += n > 0 ? (size_t)n : 0;
    }
    return err_set(err, ERR_USAGE, "%s: %s%s: '%s' is none of: %s", c->name, option_dashes(o),
                   o->name, text, list);
}

static int check_value(const struct command *c, const struct option *o, const char *text,
                       struct err *err) {
    unsigned long long whole = 0;
    char *end = NULL;
    double number = 0;
    switch (o->kind) {
    case OPTION_WORD:
        return is_word_of(text, o->words) ? 0 : bad_word(c, o, text, err);
    case OPTION_COUNT:
        if (!sv_parse_u64(sv_from(text), INT64_MAX, &whole)) {
            return err_set(err, ERR_USAGE, "%s: %s%s: want a whole number, got '%s'", c->name,
                           option_dashes(o), o->name, text);
        }
        return 0;
    case OPTION_NUMBER:
        number = strtod(text, &end);
        if (end == text || *end || !isfinite(number) || number < 0) {
            return err_set(err, ERR_USAGE, "%s: %s%s: want a number of 0 or more, got '%s'",
                           c->name, option_dashes(o), o->name, text);
        }
        return 0;
    case OPTION_SWITCH:
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_FOLDER:
        break;
    }
    if (!*text) {
        return err_set(err, ERR_USAGE, "%s: %s%s: want %s, got nothing", c->name, option_dashes(o),
                       o->name, o->value);
    }
    return 0;
}

/* One "--name", "--name=value", "--name value" or "-n value"; gives how many words it took. */
static int take_option(const struct command *c, char *const *argv, size_t left, struct args *out,
                       struct err *err) {
    char name[64];
    const char *word = argv[0] + (argv[0][1] == '-' ? 2 : 1);
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    if (n >= sizeof(name)) {
        return err_set(err, ERR_USAGE, "%s: unknown option '%s'", c->name, argv[0]);
    }
    memcpy(name, word, n);
    name[n] = 0;
    const struct option *o = option_find(c, name);
    if (!o) {
        return unknown_option(c, name, err);
    }
    struct option_use use = {.option = o};
    int took = 1;
    if (o->kind == OPTION_SWITCH) {
        if (equals) {
            return err_set(err, ERR_USAGE, "%s: --%s takes no value", c->name, name);
        }
    } else if (equals) {
        use.text = equals + 1;
    } else if (left < 2) {
        return err_set(err, ERR_USAGE, "%s: %s%s: want %s, got nothing", c->name, option_dashes(o),
                       name, o->value);
    } else {
        use.text = argv[1];
        took = 2;
    }
    int r = use.text ? check_value(c, o, use.text, err) : 0;
    if (r < 0) {
        return r;
    }
    out->uses[out->n_uses++] = use;
    return took;
}

static int check_operands(const struct command *c, const struct args *a, struct err *err) {
    if (a->n_operands < c->operands_min) {
        return err_set(err, ERR_USAGE, "%s: want %s, got %s (see 'snaffle %s --help')", c->name,
                       c->operands, a->n_operands ? "too little" : "nothing", c->name);
    }
    if (a->n_operands > c->operands_max) {
        return err_set(err, ERR_USAGE, "%s: '%s' is one word too many (see 'snaffle %s --help')",
                       c->name, a->operands[c->operands_max], c->name);
    }
    return 0;
}

/* "-n", where the command has such an option. */
static bool is_letter(const struct command *c, const char *word) {
    return word[0] == '-' && word[1] && !word[2] && option_find(c, word + 1);
}

static int parse_words(const struct command *c, size_t argc, char *const *argv, struct args *out,
                       struct err *err) {
    bool dashes = false; /* The "--" was there. */
    for (size_t i = 0; i < argc;) {
        const char *word = argv[i];
        bool only_operands = dashes || (c->runs_a_command && out->n_operands > 0);
        if (!dashes && strcmp(word, "--") == 0 && (!only_operands || out->n_operands == 1)) {
            dashes = true;
            i++;
        } else if (!only_operands && strcmp(word, "-h") == 0) {
            out->uses[out->n_uses++] = (struct option_use){.option = &common_options[0]};
            i++;
        } else if (!only_operands && (strncmp(word, "--", 2) == 0 || is_letter(c, word))) {
            int took = take_option(c, argv + i, argc - i, out, err);
            if (took < 0) {
                return took;
            }
            i += (size_t)took;
        } else if (!only_operands && word[0] == '-' && word[1]) {
            return err_set(err, ERR_USAGE, "%s: unknown option '%s' (see 'snaffle %s --help')",
                           c->name, word, c->name);
        } else {
            out->operands[out->n_operands++] = word;
            i++;
        }
    }
    return 0;
}

int args_parse(const struct command *c, size_t argc, char *const *argv, struct args *out,
               struct err *err) {
    struct args a = {.command = c};
    a.uses = calloc(argc + 1, sizeof(*a.uses));
    a.operands = calloc(argc + 1, sizeof(*a.operands));
    int r = a.uses && a.operands ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    if (r == 0) {
        r = parse_words(c, argc, argv, &a, err);
    }
    if (r == 0 && !args_has(&a, "help")) {
        r = check_operands(c, &a, err);
    }
    if (r < 0) {
        args_deinit(&a);
        return r;
    }
    *out = a;
    return 0;
}

void args_deinit(struct args *a) {
    free(a->uses);
    free(a->operands);
    *a = (struct args){0};
}

static const struct option_use *last_use(const struct args *a, const char *name) {
    BUG_IF(!option_find(a->command, name));
    for (size_t i = a->n_uses; i > 0; i--) {
        if (strcmp(a->uses[i - 1].option->name, name) == 0) {
            return &a->uses[i - 1];
        }
    }
    return NULL;
}

bool args_has(const struct args *a, const char *name) {
    return last_use(a, name) != NULL;
}

const char *args_text(const struct args *a, const char *name) {
    const struct option_use *use = last_use(a, name);
    return use ? use->text : NULL;
}

double args_number(const struct args *a, const char *name, double otherwise) {
    const char *text = args_text(a, name);
    return text ? strtod(text, NULL) : otherwise;
}

long long args_count(const struct args *a, const char *name, long long otherwise) {
    const char *text = args_text(a, name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}
