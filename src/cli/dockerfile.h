/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_DOCKERFILE_H
#define SNAFFLE_CLI_DOCKERFILE_H

#include "base/buf.h"
#include "base/err.h"

/* images/sandbox/Dockerfile, as it stood when this was built. */
extern const struct sv dockerfile_sandbox;

/* The default of `ARG NAME=` in it; empty when there is none. */
struct sv dockerfile_arg(struct sv text, const char *name);

struct dockerfile_value {
    const char *arg;
    const char *value; /* NULL: stays as it is. */
};

/* Appends `text` with these defaults in place of its own. */
int dockerfile_fill(struct sv text, const struct dockerfile_value *values, size_t n,
                    struct buf *out) CHECK_RESULT;

/* ERR_USAGE unless it can stand behind FROM: letters, digits and "._-/:@", no blank. */
int dockerfile_check_base(const char *base, struct err *err) CHECK_RESULT;

#endif
