/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_PROC_H
#define SNAFFLE_BASE_PROC_H

#include <stddef.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/err.h"

/* A helper program of the host (npm, git), run to its end. */
struct proc_options {
    const char *const *argv; /* NULL-ended; argv[0] is looked up in PATH. */
    const char *const *env;  /* NULL: this process's own. */
    const char *cwd;         /* NULL: this process's own. */
    size_t output_max;       /* Bytes kept of each stream's tail; 0: 64 KiB. */
    deadline_ms deadline;    /* Its process group is killed then, with ERR_TIMEOUT. 0: never. */
    const struct cancel *cancel;
};

struct proc_result {
    int exit_code; /* 128 + signal when killed. */
    struct buf out;
    struct buf err;
};

void proc_result_deinit(struct proc_result *r);

/* stdin is /dev/null. A non-zero exit is a result, not an error; ERR_NOT_FOUND: no such program. */
int proc_run(const struct proc_options *o, struct proc_result *out, struct err *err) CHECK_RESULT;

/* Looks a program up in PATH; gives a path that the caller frees, or NULL. */
char *proc_find(const char *name);

#endif
