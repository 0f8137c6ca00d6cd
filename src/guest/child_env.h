/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_CHILD_ENV_H
#define SNAFFLE_GUEST_CHILD_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/sv.h"

/* A growing, NULL-ended list of words: a command's arguments or environment. */
struct words {
    char **p; /* NULL while empty. */
    size_t n;
    size_t cap;
};

/* ERR_INPUT for a word that holds a NUL byte. */
int words_add(struct words *w, struct sv word, struct err *err) CHECK_RESULT;
void words_deinit(struct words *w);

/* Puts NAME=value in place of the NAME that is there; ERR_INPUT for what is no such pair. */
int child_env_set(struct words *env, struct sv pair, struct err *err) CHECK_RESULT;
bool child_env_has(const struct words *env, struct sv name);

/* The guest's own environment, or from nothing: read-only system folders and a plain language. */
int child_env_inherit(struct words *env, struct err *err) CHECK_RESULT;
int child_env_clean(struct words *env, struct err *err) CHECK_RESULT;

#endif
