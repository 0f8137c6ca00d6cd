/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_BATCH_H
#define SNAFFLE_ROLLOUT_BATCH_H

#include "rollout/batch_plan.h"
#include "rollout/batch_sum.h"
#include "rollout/factory.h"

/*
 * Many rollouts as one run, some at once. One that fails stops no other; the factory's `retries`
 * hold for each. Cancelled, no new ones begin, and those that run are stopped and collected.
 *
 *     task_list_load("tasks.jsonl", &tasks, err);
 *     batch_plan_make(&tasks, 8, &plan, err);
 *     batch_run(factory, &plan, &(struct batch_options){.concurrency = 16}, err);
 *     batch_totals(&plan, &totals);
 */

#define BATCH_CONCURRENCY_DEFAULT 4
#define BATCH_CONCURRENCY_MAX 65536 /* As many as there are uids for sandboxes. */
#define BATCH_ROWS_MAX 16           /* A screen has not many more lines to spare. */

/* A rollout that runs. */
struct batch_row {
    char rollout[STORE_NAME_MAX + 1];
    enum rollout_phase phase;
    unsigned long long calls;
    unsigned long long completion_tokens;
    double elapsed_s;
};

/* How the batch stands; a copy. */
struct batch_view {
    struct batch_totals totals;
    double elapsed_s;
    double tokens_per_s;                   /* Over the last seconds. */
    double eta_s;                          /* Negative: not known. */
    struct batch_row rows[BATCH_ROWS_MAX]; /* Of those that run, the first. */
    size_t n_rows;
};

struct batch_options {
    unsigned concurrency;        /* At once; 0: 4. */
    bool resume;                 /* Goes on with the factory's run. */
    uint64_t rollout_bytes;      /* Estimate for the disk; 0: BATCH_ROLLOUT_BYTES. */
    const struct cancel *cancel; /* As rollout_control has them. */
    const struct cancel *hard;
    /* Called on the caller's thread: twice a second, and after each rollout's end. */
    void (*tick)(void *arg, const struct batch_view *view);
    /* Likewise, once a rollout that ended here. */
    void (*ended)(void *arg, const struct batch_item *item);
    void *arg;
};

/*
 * Runs what is left of the plan and fills its items. Errors mean that nothing was begun: another
 * process is at the run (ERR_STATE), a rollout is there already (ERR_EXISTS), no room (ERR_FULL,
 * ERR_ENVIRONMENT). What a rollout came to stands in its item.
 */
int batch_run(struct rollout_factory *f, struct batch_plan *plan, const struct batch_options *o,
              struct err *err) CHECK_RESULT;

#endif
