/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/batch_live.h"
#include "cli/batch_summary.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/settings.h"
#include "cli/text.h"
#include "rollout/task_where.h"

/* What the command works with. */
struct work {
    const struct args *args;
    struct run_settings settings;
    struct task_list tasks;
    struct batch_plan plan;
    struct rollout_factory *factory;
    struct cancel *soft;
    struct cancel *hard;
};

/* The texts of every --where. */
static int filter(struct work *w, struct err *err) {
    const struct args *a = w->args;
    AUTO_FREE const char **where = calloc(a->n_uses + 1, sizeof *where);
    size_t n = 0;
    if (!where) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < a->n_uses; i++) {
        if (strcmp(a->uses[i].option->name, "where") == 0) {
            where[n++] = a->uses[i].text;
        }
    }
    int r = n ? task_list_filter(&w->tasks, where, n, err) : 0;
    return r < 0 ? err_wrap(err, "batch") : 0;
}

static int read_input(struct work *w, struct err *err) {
    const struct args *a = w->args;
    if (args_has(a, "resume") && !args_has(a, "run")) {
        return err_set(err, ERR_USAGE, "batch: --resume wants --run NAME: which run goes on?");
    }
    if (args_count(a, "concurrency", 1) < 1 ||
        args_count(a, "concurrency", 1) > BATCH_CONCURRENCY_MAX) {
        return err_set(err, ERR_USAGE, "batch: --concurrency: want 1 to %d", BATCH_CONCURRENCY_MAX);
    }
    if (args_count(a, "n", 1) < 1 || args_count(a, "n", 1) > BATCH_PER_TASK_MAX) {
        return err_set(err, ERR_USAGE, "batch: -n: want 1 to %d", BATCH_PER_TASK_MAX);
    }
    int r = task_list_load(a->operands[0], &w->tasks, err);
    r = r < 0 ? r : filter(w, err);
    for (size_t i = 0; i < w->tasks.n && r == 0; i++) {
        run_settings_lay_over(a, &w->tasks.tasks[i]);
    }
    r = r < 0 ? r : batch_plan_make(&w->tasks, (size_t)args_count(a, "n", 1), &w->plan, err);
    return r < 0 ? r : run_settings_read_flags(a, &w->settings, err);
}

/* The folder of the run; the caller frees. */
static char *run_dir(const struct work *w) {
    const char *runs = w->settings.options.runs_dir;
    return mem_printf("%s/%s", runs ? runs : "./runs", rollout_factory_run(w->factory));
}

static int report(const struct work *w, double wall_s, struct err *err) {
    AUTO_FREE char *dir = run_dir(w);
    if (!dir) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (args_has(w->args, "json")) {
        return out_json(batch_to_json(&w->plan, rollout_factory_run(w->factory), dir, wall_s), err);
    }
    return args_has(w->args, "quiet") ? 0 : batch_summary_print(&w->plan, dir, wall_s, stdout, err);
}

static int roll(struct work *w, struct err *err) {
    struct batch_live live;
    batch_live_init(&live, stderr, text_columns(stderr), text_has_colour(stderr),
                    args_has(w->args, "quiet"));
    if (!live.quiet) {
        (void)fprintf(stderr, "run %s: %zu rollouts of %zu tasks\n",
                      rollout_factory_run(w->factory), w->plan.n, w->tasks.n);
    }
    struct batch_options options = {
        .concurrency = (unsigned)args_count(w->args, "concurrency", BATCH_CONCURRENCY_DEFAULT),
        .resume = args_has(w->args, "resume"),
        .cancel = w->soft,
        .hard = w->hard,
        .tick = batch_live_tick,
        .ended = batch_live_ended,
        .arg = &live,
    };
    int64_t began = clock_ms();
    int r = batch_run(w->factory, &w->plan, &options, err);
    batch_live_end(&live);
    r = r < 0 ? r : report(w, (double)(clock_ms() - began) / 1000, err);
    return r < 0 ? r : batch_exit_status(&w->plan, cancel_thrown(w->soft));
}

static int work(struct work *w, struct err *err) {
    int r = read_input(w, err);
    r = r < 0 ? r : cancel_new(&w->soft, err);
    r = r < 0 ? r : cancel_new(&w->hard, err);
    r = r < 0 ? r : interrupt_install(w->soft, w->hard, err);
    r = r < 0 ? r : rollout_factory_new(&w->settings.options, &w->factory, err);
    r = r < 0 ? r : rollout_factory_check_endpoint(w->factory, w->soft, err);
    return r < 0 ? r : roll(w, err);
}

static int run(const struct args *a, struct err *err) {
    struct work w = {.args = a};
    int r = work(&w, err);
    rollout_factory_free(w.factory);
    batch_plan_deinit(&w.plan);
    task_list_deinit(&w.tasks);
    run_settings_deinit(&w.settings);
    /* The switches stay: a signal may still come. */
    return r;
}

const struct command cmd_batch = {
    .name = "batch",
    .summary = "run many tasks, each some times, as one run",
    .operands = "TASKS",
    .operands_min = 1,
    .operands_max = 1,
    .options =
        (const struct option[]){
            {"n", OPTION_COUNT, "K", "rollouts a task, which are a group (default: 1)", NULL},
            {"concurrency", OPTION_COUNT, "N", "rollouts at once (default: 4)", NULL},
            {"resume", OPTION_SWITCH, NULL,
             "go on with the run that --run names: what ended is kept, the rest is done", NULL},
            {"where", OPTION_TEXT, "FIELD=GLOB",
             "only tasks whose task_id, instruction or metadata.NAME matches; may be repeated, "
             "then "
             "all must",
             NULL},
            RUN_OUTPUT_OPTIONS,
            {0},
        },
    .also = run_settings_options,
    .notes =
        "TASKS is a file of one JSON task a line (.jsonl), a folder of tasks, or a single task.\n"
        "Exit status: 0 every rollout ended with status ok, 1 some did not, 130 cancelled.",
    .run = run,
};
