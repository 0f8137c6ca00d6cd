/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * snaffle-plan-of HOME URL INSTRUCTION: prints how Snaffle would start OpenCode there, as JSON, so
 * that a test can start it without a sandbox.
 */
#include <stdio.h>

#include "base/json.h"
#include "tests/agent/live.h"

static json_t *strings(char *const *list) {
    json_t *out = json_array();
    for (size_t i = 0; list[i]; i++) {
        json_array_append_new(out, json_string(list[i]));
    }
    return out;
}

static json_t *files(const struct agent_plan *plan) {
    json_t *out = json_object();
    for (size_t i = 0; i < plan->n_files; i++) {
        json_object_set_new(out, plan->files[i].path, json_string(plan->files[i].content));
    }
    return out;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct agent_plan plan = {0};
    struct agent_config config = live_config();
    if (argc != 4) {
        (void)fputs("usage: snaffle-plan-of HOME URL INSTRUCTION\n", stderr);
        return 2;
    }
    if (!live_opencode()) {
        (void)puts("null"); /* Not installed. */
        return 0;
    }
    config.sandbox_home = argv[1];
    struct agent_job job = {.instruction = argv[3],
                            .base_url = argv[2],
                            .api_key = "key-of-the-rollout",
                            .program = live_opencode(),
                            .title = "-a title",
                            .deadline_unix = 2000000000};
    if (agent_opencode.plan(&config, &job, &plan, &err) < 0) {
        (void)fprintf(stderr, "snaffle-plan-of: %s\n", err.msg);
        return 1;
    }
    AUTO_JSON json_t *out =
        json_pack("{s:o, s:o, s:s, s:s, s:s, s:o}", "argv", strings(plan.argv), "env",
                  strings(plan.env), "cwd", plan.cwd, "input", plan.input ? plan.input : "",
                  "log_path", plan.log_path, "files", files(&plan));
    int r = out ? json_dumpf(out, stdout, 0) : -1;
    agent_plan_deinit(&plan);
    return r < 0 ? 1 : 0;
}
