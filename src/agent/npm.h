/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_AGENT_NPM_H
#define SNAFFLE_AGENT_NPM_H

#include "agent/install.h"
#include "base/buf.h"

/* The two things that are asked of npm. Failures that may pass are tried three times. */

/* Puts the package under `folder`/node_modules. ERR_NOT_FOUND: no such version. */
int npm_install(const struct agent_install *what, const char *package, const char *version,
                const char *folder, struct err *err) CHECK_RESULT;

/* Appends the newest version's number. */
int npm_latest(const struct agent_install *what, const char *package, struct buf *out,
               struct err *err) CHECK_RESULT;

/* The code in npm's talk ("E404"); empty when there is none. */
struct sv npm_error_code(struct sv talk);

#endif
