/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SANDBOX_INSIDE_H
#define SNAFFLE_SANDBOX_INSIDE_H

#include <stdbool.h>

#include "base/err.h"

/* Paths inside, as a specification names them. */

/* An absolute, plain path that is none of the system's. `what` is for the message: "home". */
int inside_check(const char *what, const char *path, struct err *err) CHECK_RESULT;

/* Whether `path` is `folder` or stands in it. */
bool inside_is_within(const char *path, const char *folder);

/* Where the local backend keeps what is its own; nothing else may stand there, on any backend. */
#define INSIDE_GUEST "/run/snaffle-guest"
#define INSIDE_MODEL_DIR "/run/snaffle"

#endif
