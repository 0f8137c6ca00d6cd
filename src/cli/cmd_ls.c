/* SPDX-License-Identifier: BSD-3-Clause */
#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/kept.h"
#include "cli/out.h"
#include "cli/table.h"
#include "cli/text.h"

#define LS_LIMIT 50 /* A screen or two; --limit and --json are for more. */

static const struct table_column columns[] = {
    {.title = "RUN", .may_cut = true},
    {.title = "ROLLOUT", .may_cut = true},
    {.title = "STATUS"},
    {.title = "CAUSE", .may_cut = true},
    {.title = "REWARD", .right = true},
    {.title = "TURNS", .right = true},
    {.title = "TOKENS", .right = true},
    {.title = "TIME", .right = true},
    {.title = "MODEL", .may_cut = true},
    {.title = "STARTED"},
};

static void add_row(struct table *t, const struct store_row *row) {
    char text[32];
    table_add(t, sv_from(row->run));
    table_add(t, sv_from(row->rollout));
    table_add(t, sv_from(row->status));
    table_add(t, sv_from(row->cause));
    if (row->has_reward) {
        table_addf(t, "%.2f", row->reward);
    } else {
        table_add(t, SV("-"));
    }
    table_addf(t, "%lld", row->turns);
    table_addf(t, "%lld", row->completion_tokens);
    text_duration(row->wall_s, text);
    table_add(t, sv_from(text));
    table_add(t, sv_from(row->model));
    time_t started = (time_t)row->started;
    struct tm tm;
    text[0] = 0;
    if (started > 0 && localtime_r(&started, &tm)) {
        (void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    }
    table_add(t, sv_from(text));
}

static int print_table(const struct store_rows *rows, struct err *err) {
    struct table t;
    table_init(&t, columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < rows->n; i++) {
        add_row(&t, &rows->rows[i]);
    }
    int r = table_print(&t, stdout, 0, err);
    table_deinit(&t);
    return r;
}

static int print_json(const struct store_rows *rows, struct err *err) {
    AUTO_JSON json_t *all = json_array();
    for (size_t i = 0; i < rows->n; i++) {
        if (json_array_append_new(all, store_row_to_json(&rows->rows[i])) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
    }
    return out_json(TAKE(all), err);
}

static int list(const struct args *a, struct store *store, struct err *err) {
    struct store_rows rows = {0};
    int r = args_has(a, "rebuild") ? store_index_rebuild(store, NULL, err) : 0;
    if (r == 0) {
        r = store_list(store,
                       &(struct store_query){.run = args_text(a, "run"),
                                             .group = args_text(a, "group"),
                                             .status = args_text(a, "status"),
                                             .cause = args_text(a, "cause"),
                                             .task_id = args_text(a, "task"),
                                             .limit = (unsigned)args_count(a, "limit", LS_LIMIT)},
                       &rows, err);
    }
    if (r == 0) {
        r = args_has(a, "json") ? print_json(&rows, err) : print_table(&rows, err);
    }
    store_rows_deinit(&rows);
    return r;
}

static int run(const struct args *a, struct err *err) {
    struct store *store = NULL;
    int r = kept_open(a, &store, err);
    if (r == 0) {
        r = list(a, store, err);
        store_close(store);
    }
    return r;
}

const struct command cmd_ls = {
    .name = "ls",
    .summary = "list rollouts, the newest first",
    .operands = "",
    .options =
        (const struct option[]){
            KEPT_RUNS_OPTION,
            {"run", OPTION_TEXT, "NAME", "only of this run", NULL},
            {"group", OPTION_TEXT, "NAME", "only of this group", NULL},
            {"task", OPTION_TEXT, "ID", "only of the task with this id", NULL},
            {"status", OPTION_WORD, "STATUS", "only with this status",
             (const char *const[]){"ok", "failed", "cancelled", "open", NULL}},
            {"cause", OPTION_TEXT, "CAUSE", "only with this cause", NULL},
            {"limit", OPTION_COUNT, "N", "at most so many (default: 50; 0: all)", NULL},
            {"rebuild", OPTION_SWITCH, NULL, "read every folder again and renew the index first",
             NULL},
            {"json", OPTION_SWITCH, NULL, "print a JSON array", NULL},
            {0},
        },
    .run = run,
};
