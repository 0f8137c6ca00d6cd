/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/progress.h"
#include "cli/settings.h"
#include "cli/summary.h"
#include "cli/text.h"
#include "rollout/result.h"

/* The rollout itself; its result is printed. Gives the exit status. */
static int roll(const struct args *a, const struct run_settings *s, struct rollout_factory *f,
                const struct cancel *soft, const struct cancel *hard, struct err *err) {
    struct rollout_result result = {0};
    struct progress progress;
    struct rollout_names names = {.group = args_text(a, "group"),
                                  .rollout = args_text(a, "rollout")};
    progress_init(&progress, stderr, text_columns(stderr), args_has(a, "quiet"));
    struct rollout_control control = {
        .cancel = soft, .hard = hard, .progress = progress_event, .progress_arg = &progress};
    int r = rollout_run(f, &s->task, &names, &control, &result, err);
    progress_end(&progress);
    if (r < 0) {
        return r;
    }
    if (args_has(a, "json")) {
        r = out_json(json_incref(result.json), err);
    } else if (!args_has(a, "quiet")) {
        r = summary_print(result.json, result.dir, stdout, err);
    }
    int status = rollout_result_exit_status(&result);
    rollout_result_deinit(&result);
    return r < 0 ? r : status;
}

static int with_switches(const struct args *a, const struct run_settings *s, struct cancel *soft,
                         struct cancel *hard, struct err *err) {
    struct rollout_factory *factory = NULL;
    int r = interrupt_install(soft, hard, err);
    if (r == 0) {
        r = rollout_factory_new(&s->options, &factory, err);
    }
    if (r == 0) {
        r = rollout_factory_check_endpoint(factory, soft, err);
    }
    if (r == 0) {
        r = roll(a, s, factory, soft, hard, err);
    }
    rollout_factory_free(factory);
    return r;
}

static int run(const struct args *a, struct err *err) {
    struct run_settings settings = {0};
    struct cancel *soft = NULL;
    struct cancel *hard = NULL;
    int r = run_settings_read(a, &settings, err);
    if (r < 0) {
        return r;
    }
    r = cancel_new(&soft, err);
    r = r < 0 ? r : cancel_new(&hard, err);
    if (r == 0) {
        r = with_switches(a, &settings, soft, hard, err);
    }
    /* The switches stay: a signal may still come. */
    run_settings_deinit(&settings);
    return r;
}

const struct command cmd_run = {
    .name = "run",
    .summary = "run one task with an agent in a sandbox, record its model calls, grade it",
    .operands = "TASK",
    .operands_min = 1,
    .operands_max = 1,
    .options =
        (const struct option[]){
            {"group", OPTION_TEXT, "NAME", "the group's name (default: the rollout's)", NULL},
            {"rollout", OPTION_TEXT, "NAME",
             "the rollout's name (default: made from the task's id)", NULL},
            RUN_OUTPUT_OPTIONS,
            {0},
        },
    .also = run_settings_options,
    .notes = "TASK is a task file, a folder that holds task.json, or '-' for standard input.\n"
             "Flags weigh more than the environment, that more than .env, that more than --config.",
    .run = run,
};
