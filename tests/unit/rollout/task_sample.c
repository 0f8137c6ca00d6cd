/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a task from stdin and prints it as task.json has it; a refused one is told, with status 2.
 */
#include <stdio.h>

#include "base/json.h"
#include "rollout/task.h"

int main(void) {
    struct err err = {0};
    struct task t = {0};
    AUTO_BUF struct buf text = {0};
    if (task_load("-", &t, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    AUTO_JSON json_t *json = task_to_json(&t);
    int failed = !json || json_pretty(json, &text) < 0 || fputs(buf_cstr(&text), stdout) < 0;
    task_deinit(&t);
    return failed;
}
