/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_RUN_H
#define SNAFFLE_GUEST_RUN_H

#include "base/err.h"

/*
 * The door `run`, for providers that offer only commands and files: a start frame's fields in a
 * file, with their version. Gives 0 as soon as the command runs; a process of its own stays behind,
 * waits for the command, and writes the record at the spec's exit path.
 */
int run(const char *spec_path, struct err *err) CHECK_RESULT;

#endif
