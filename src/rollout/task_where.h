/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_TASK_WHERE_H
#define SNAFFLE_ROLLOUT_TASK_WHERE_H

#include "rollout/task.h"

/*
 * A condition on a task: FIELD=GLOB. FIELD is task_id, instruction or metadata.NAME, with further
 * dots for objects within. GLOB is a shell pattern (*, ?, [a-z]) that the whole value must match. A
 * number, true, false and null are compared as JSON spells them, a list by any of its values; what
 * is not there never matches.
 */

/* ERR_USAGE when `where` is no condition. */
int task_where_check(const char *where, struct err *err) CHECK_RESULT;

/* `where` was checked. */
bool task_where_matches(const struct task *t, const char *where);

#endif
