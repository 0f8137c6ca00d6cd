/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_TASK_PATH_H
#define SNAFFLE_ROLLOUT_TASK_PATH_H

#include "base/err.h"

/* Checks a path of a task's file and gives it clean: a relative one without "." and doubled
 * slashes; an absolute one must be so already. `where` is for the message. */
int task_path_clean(const char *where, const char *path, char **out, struct err *err) CHECK_RESULT;

#endif
