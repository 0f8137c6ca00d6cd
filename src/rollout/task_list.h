/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_TASK_LIST_H
#define SNAFFLE_ROLLOUT_TASK_LIST_H

#include "rollout/task.h"

/* Many tasks, from one source. */
struct task_list {
    struct task *tasks;
    char **sources; /* Where each stands, for messages: "tasks.jsonl:3", "tasks/sort". */
    size_t n;
    size_t cap;
};

#define TASK_LIST_BYTES_MAX (1u << 30) /* Of a file of tasks; it is held while it is read. */
#define TASK_LIST_MAX 1000000          /* A million tasks are a slip, or several batches. */

/*
 * `path`: TASKS.jsonl (or .ndjson), one task a line, blank lines apart, a task without task_id
 * named by file and line ("tasks-3"); a folder, whose tasks are its *.json files and its folders
 * that hold a task.json, by name; or what task_load takes, a list of one. Two tasks of one id, and
 * no task at all, are ERR_INPUT. Messages name file and line.
 */
int task_list_load(const char *path, struct task_list *out, struct err *err) CHECK_RESULT;
void task_list_deinit(struct task_list *l);

/* Keeps the tasks for which all `n` conditions hold, in their order; see task_where.h. */
int task_list_filter(struct task_list *l, const char *const *where, size_t n,
                     struct err *err) CHECK_RESULT;

#endif
