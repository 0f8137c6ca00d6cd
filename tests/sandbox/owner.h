/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_SANDBOX_OWNER_H
#define SNAFFLE_TESTS_SANDBOX_OWNER_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * A process that owns sandboxes and is killed outright: the test program again, started with
 * --owner and a case's own arguments. A case that fails leaves none.
 */
struct owner {
    pid_t pid;
    FILE *said; /* Its standard output. */
};

/* `args` come after --owner, and end with NULL. */
struct owner owner_start(const char *const *args);

/* Reads its lines up to the one that is `word`; false at the end of them. */
bool owner_says(struct owner *o, const char *word);

void owner_kill(struct owner *o);

#endif
