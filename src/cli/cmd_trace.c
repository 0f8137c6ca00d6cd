/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/env.h"
#include "cli/commands.h"
#include "cli/kept.h"
#include "train/derive.h"

/* `derive` may be NULL. */
static int print_line(void *derive, struct sv line, struct err *err) {
    AUTO_BUF struct buf more = {0};
    int r = derive ? derive_line(derive, line, &more, err) : 0;
    if (r < 0) {
        return r;
    }
    struct sv text = derive ? buf_sv(&more) : line;
    (void)fwrite(text.p, 1, text.n, stdout);
    (void)fputc('\n', stdout);
    return 0;
}

static int open_derive(const struct args *a, struct derive **out, struct err *err) {
    const char *name = args_text(a, "api-key-env");
    const struct derive_options o = {.base_url = args_text(a, "derive-prompt-ids"),
                                     .api_key = name ? env_get(name) : NULL};
    if (!o.base_url) {
        return name ? err_set(err, ERR_USAGE, "trace: --api-key-env belongs to --derive-prompt-ids")
                    : 0;
    }
    if (name && !o.api_key) {
        return err_set(err, ERR_USAGE, "--api-key-env: '%s' is not set", name);
    }
    int r = derive_open(&o, out, err);
    return r < 0 ? err_wrap(err, "--derive-prompt-ids") : 0;
}

static int run(const struct args *a, struct err *err) {
    struct store *store = NULL;
    struct store_row row = {0};
    struct derive *derive = NULL;
    int r = open_derive(a, &derive, err);
    r = r < 0 ? r : kept_find(a, &store, &row, err);
    if (r >= 0) {
        r = kept_trace(store, &row, print_line, derive, err);
        store_row_deinit(&row);
        store_close(store);
    }
    derive_close(derive);
    return r;
}

const struct command cmd_trace = {
    .name = "trace",
    .summary = "print a rollout's trace, one JSON object a model call",
    .operands = "ROLLOUT",
    .operands_min = 1,
    .operands_max = 1,
    .options =
        (const struct option[]){
            KEPT_RUNS_OPTION,
            {"derive-prompt-ids", OPTION_TEXT, "URL",
             "of llama.cpp's server, still up: ask it for the prompts' ids, which it tells of no "
             "call, and add them under 'derived'",
             NULL},
            {"api-key-env", OPTION_TEXT, "NAME", "the variable that holds that server's key", NULL},
            {0},
        },
    .notes = "ROLLOUT is a rollout's name, RUN/ROLLOUT, a part from the front that fits one only, "
             "or\n'last'. Works while the rollout still runs.",
    .run = run,
};
