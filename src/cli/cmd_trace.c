/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/commands.h"
#include "cli/kept.h"

static int print_line(void *arg, struct sv line, struct err *err) {
    (void)arg;
    (void)err;
    (void)fwrite(line.p, 1, line.n, stdout);
    (void)fputc('\n', stdout);
    return 0;
}

static int run(const struct args *a, struct err *err) {
    struct store *store = NULL;
    struct store_row row = {0};
    int r = kept_find(a, &store, &row, err);
    if (r < 0) {
        return r;
    }
    r = kept_trace(store, &row, print_line, NULL, err);
    store_row_deinit(&row);
    store_close(store);
    return r;
}

const struct command cmd_trace = {
    .name = "trace",
    .summary = "print a rollout's trace, one JSON object a model call",
    .operands = "ROLLOUT",
    .operands_min = 1,
    .operands_max = 1,
    .options = (const struct option[]){KEPT_RUNS_OPTION, {0}},
    .notes = "ROLLOUT is a rollout's name, RUN/ROLLOUT, a part from the front that fits one only, "
             "or\n'last'. Works while the rollout still runs.",
    .run = run,
};
