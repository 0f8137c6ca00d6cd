/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_BATCH_PLAN_H
#define SNAFFLE_ROLLOUT_BATCH_PLAN_H

#include <jansson.h>

#include "base/clock.h"
#include "rollout/control.h"
#include "rollout/task_list.h"
#include "store/store.h"

/*
 * What a batch is to do: `per_task` rollouts of each task, which are a group. Names follow from
 * the task's id and the index, so that going on with a batch is a look-up.
 */

#define BATCH_PER_TASK_MAX 100000

enum batch_state {
    BATCH_WAITING,
    BATCH_RUNNING,
    BATCH_RESTING, /* Tried, and to be tried again; the figures of that attempt hold. */
    BATCH_ENDED,   /* The figures hold. */
};

struct batch_item {
    const struct task *task; /* Keeps. */
    char group[STORE_NAME_MAX + 1];
    char rollout[STORE_NAME_MAX + 1];
    unsigned attempt; /* To be made, or made last; from 1. */
    bool kept;        /* Ended in an earlier batch of this run. */

    enum batch_state state;
    unsigned tries;           /* Attempts made in this batch. */
    deadline_ms again_at;     /* While it rests: when it may go on. */
    enum rollout_phase phase; /* While it runs: where it is, and the figures so far. */
    bool has_result;          /* Else it ended without a folder of its own; see `error`. */
    char *status;             /* ok, failed, cancelled; owned, as the next three. */
    char *cause;              /* Or NULL. */
    char *error;              /* One line, or NULL. */
    char *dir;                /* Or NULL. */
    bool has_reward;
    double reward;
    double wall_s;
    unsigned long long calls;
    unsigned long long completion_tokens;
};

struct batch_plan {
    struct batch_item *items; /* Task by task. */
    size_t n;
    size_t per_task;
};

/* Keeps the list. ERR_INPUT when two tasks' ids become one name. */
int batch_plan_make(const struct task_list *tasks, size_t per_task, struct batch_plan *out,
                    struct err *err) CHECK_RESULT;
void batch_plan_deinit(struct batch_plan *p);

/*
 * Looks up what there is of each rollout under the run. With `resume` those that ended for good
 * are kept (ok; failed for a cause that is not worth another attempt), and the others get a further
 * attempt; ERR_INPUT when a task is not what such a rollout was begun with. Without it one that is
 * there is ERR_EXISTS. *left: how many are to be done. Nothing is written.
 */
int batch_plan_look_up(struct batch_plan *p, const struct store *s, const char *run, bool resume,
                       size_t *left, struct err *err) CHECK_RESULT;

/* Fills an item's figures from its result.json. */
int batch_item_take(struct batch_item *item, const json_t *result, const char *dir,
                    struct err *err) CHECK_RESULT;

#endif
