/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_GUARD_H
#define SNAFFLE_GUEST_GUARD_H

#include "base/err.h"

/*
 * Runs a program of the host that must not outlive whoever started this process: one that changes
 * its user or its user namespace loses the parent-death signal, as the kernel has it. This process
 * keeps its own, and kills the program when it comes. The same for a SIGTERM. The program gets all
 * descriptors; this process keeps only the standard ones.
 *
 * `argv` begins with the program's name and ends with NULL. Gives its exit status, 128 + signal for
 * one that was killed.
 */
int guard(const char *program, char *const *argv, struct err *err) CHECK_RESULT;

#endif
