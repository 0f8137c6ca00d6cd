/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_TASK_FILES_H
#define SNAFFLE_ROLLOUT_TASK_FILES_H

#include "base/json.h"
#include "rollout/task.h"

/* Adds the files of the object {path: text} in `field` to *files. Two that can't both be there (the
 * same path twice, a file where another needs a folder) are ERR_INPUT. */
int task_files_read(struct json_at at, const char *field, struct task_file **files, size_t *n,
                    struct err *err) CHECK_RESULT;

void task_files_free(struct task_file *files, size_t n);

/* Gives {path: text}. NULL: no memory. */
json_t *task_files_to_json(const struct task_file *files, size_t n);

#endif
