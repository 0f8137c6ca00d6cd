/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_BASE_ENV_H
#define SNAFFLE_BASE_ENV_H

#include "base/err.h"

/* The process's environment, with a `.env` file behind it: the real environment wins. */

/* The value, or NULL when unset or empty. Valid until the process ends. */
const char *env_get(const char *name);

/* Reads NAME=value lines (comments, `export `, single and double quotes as in a shell); a missing
 * file is success. Called once, before other threads start. */
int env_load_dotenv(const char *path, struct err *err) CHECK_RESULT;

#endif
