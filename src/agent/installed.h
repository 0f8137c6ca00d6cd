/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_AGENT_INSTALLED_H
#define SNAFFLE_AGENT_INSTALLED_H

#include "agent/install.h"
#include "base/buf.h"

/* The note beside an installed program, and its digest. */

/* ERR_INPUT unless it begins with a digit and has digits, letters, dots and dashes only: it becomes
 * part of a path and of a command line. */
int installed_check_version(const char *version, struct err *err) CHECK_RESULT;

/* Appends the file's SHA-256 in hex. */
int installed_digest(const char *path, struct buf *out, struct err *err) CHECK_RESULT;

/* Writes installed.json into `folder`. */
int installed_write_note(const char *folder, const struct agent_installed *i, const char *package,
                         struct err *err) CHECK_RESULT;

/* Fills `out` from <folder>, where the program must be. ERR_NOT_FOUND: it is not there. */
int installed_read(const char *folder, const char *agent, const char *version,
                   struct agent_installed *out, struct err *err) CHECK_RESULT;

#endif
