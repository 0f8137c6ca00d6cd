/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/child_env.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_CAP 16

extern char **environ;

int words_add(struct words *w, struct sv word, struct err *err) {
    if (word.n > 0 && memchr(word.p, '\0', word.n)) {
        return err_set(err, ERR_INPUT, "a NUL byte within an argument or variable");
    }
    if (w->n + 1 >= w->cap) {
        size_t cap = w->cap ? w->cap * 2 : FIRST_CAP;
        char **p = realloc(w->p, cap * sizeof *p);
        if (!p) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        w->p = p;
        w->cap = cap;
    }
    char *copy = mem_strndup(word.p, word.n);
    if (!copy) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    w->p[w->n++] = copy;
    w->p[w->n] = NULL;
    return 0;
}

void words_deinit(struct words *w) {
    for (size_t i = 0; i < w->n; i++) {
        free(w->p[i]);
    }
    free(w->p);
    *w = (struct words){0};
}

/* The place of NAME in the list, or its end. */
static size_t find(const struct words *env, struct sv name) {
    size_t i = 0;
    while (i < env->n) {
        struct sv pair = sv_from(env->p[i]);
        if (sv_starts_with(pair, name) && pair.n > name.n && pair.p[name.n] == '=') {
            break;
        }
        i++;
    }
    return i;
}

int child_env_set(struct words *env, struct sv pair, struct err *err) {
    size_t name_n = sv_find(pair, SV("="));
    if (name_n == (size_t)-1 || name_n == 0) {
        return err_set(err, ERR_INPUT, "a variable is not of the form NAME=value");
    }
    size_t i = find(env, (struct sv){pair.p, name_n});
    int r = words_add(env, pair, err);
    if (r < 0) {
        return r;
    }
    if (i + 1 <
        env->n) { /* The name was there: the new pair, which is the last, takes its place. */
        free(env->p[i]);
        env->p[i] = env->p[--env->n];
        env->p[env->n] = NULL;
    }
    return 0;
}

bool child_env_has(const struct words *env, struct sv name) {
    return find(env, name) < env->n;
}

int child_env_inherit(struct words *env, struct err *err) {
    int r = 0;
    for (char **p = environ; *p && r == 0; p++) {
        r = words_add(env, sv_from(*p), err);
    }
    return r;
}

int child_env_clean(struct words *env, struct err *err) {
    int r = child_env_set(
        env, SV("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), err);
    return r < 0 ? r : child_env_set(env, SV("LANG=C.UTF-8"), err);
}
