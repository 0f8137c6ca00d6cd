/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GUEST_RUN_H
#define SNAFFLE_GUEST_RUN_H

#include "base/err.h"
#include "base/sv.h"

/*
 * A command's supervisor: becomes a process with a session of its own that runs what the spec says
 * (a start frame's fields with their version), waits for it, and writes its record into `dir`.
 * Holds `lock_fd` until its end, and nothing else of the caller's. Gives the exit status.
 */
int run_supervise(const char *dir, struct sv spec, int lock_fd);

#endif
