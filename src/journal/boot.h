/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_BOOT_H
#define SNAFFLE_JOURNAL_BOOT_H

#include <stdbool.h>

#include "base/err.h"

/* The folder of one writer, DIR/<boot>, held by flock while the writer lives. */

#define BOOT_NAME_MAX 127

struct boot {
    char name[BOOT_NAME_MAX + 1];
    char *path;
    int fd; /* The folder, locked. */
};

/* Makes a folder that no other writer has, and locks it. */
int boot_make(const char *dir, struct boot *out, struct err *err) CHECK_RESULT;
void boot_deinit(struct boot *b); /* Lets the lock go. */

/* Whether a writer holds the folder. */
bool boot_alive(const char *path);

#endif
