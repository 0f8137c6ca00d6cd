/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_DOOR_H
#define SNAFFLE_GUEST_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The door `run`, for providers that offer only commands and files. A command's folder holds what
 * becomes of it; whoever asks for it first starts it, and everybody who asks may wait and is told
 * the same. So no answer that is cut, lost or late loses a command, and none runs twice.
 */
struct door_options {
    const char *dir;    /* The command's, made when missing. */
    bool has_spec;      /* A parcel with the spec stands on stdin; else in `spec` of the folder. */
    bool is_stop;       /* Ends it instead, or lets it never begin. */
    uint64_t wait_ms;   /* For its end, at most. */
    size_t output_max;  /* Bytes told of each stream's tail. */
    const char *forget; /* "3,7": folders beside it that are of no more use. NULL: none. */
    unsigned linger_ms; /* After the telling: for who loses what is told at the very end. */
};

/* Tells, as one parcel on stdout: the record's fields and, of a command that has ended, out_total,
 * err_total and twice bytes. */
int door_run(const struct door_options *o, struct err *err) CHECK_RESULT;

#endif
