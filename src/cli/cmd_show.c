/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"
#include "base/json_loose.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/kept.h"
#include "cli/out.h"
#include "cli/show.h"
#include "cli/summary.h"
#include "cli/table.h"
#include "cli/turn.h"

static const struct table_column columns[] = {
    {.title = "TURN", .right = true},
    {.title = "ROLE", .may_cut = true},
    {.title = "TRAIN"},
    {.title = "FINISH", .may_cut = true},
    {.title = "PROMPT", .right = true},
    {.title = "COMPLETION", .right = true},
    {.title = "MEAN LOGP", .right = true},
    {.title = "LATENCY", .right = true},
    {.title = "FINDINGS", .may_cut = true},
};

struct showing {
    struct table table;
    json_t *lines;    /* For --json; NULL: a table. */
    long long wanted; /* --turn; 0: all. */
    json_t *turn;     /* The one that was wanted. */
};

static void add_row(struct table *table, const json_t *line) {
    struct turn t;
    char text[256];
    turn_read(line, &t);
    table_addf(table, "%lld", t.number);
    table_add(table, sv_from(t.role));
    table_add(table, sv_from(t.trainable));
    table_add(table, sv_from(t.finish));
    table_addf(table, t.n_prompt < 0 ? "-" : "%lld", t.n_prompt);
    table_addf(table, t.n_completion < 0 ? "-" : "%lld", t.n_completion);
    turn_mean_logp(t.logp_sum, t.n_logps, text);
    table_add(table, sv_from(text));
    turn_latency(&t, text);
    table_add(table, sv_from(text));
    turn_findings(&t, text, sizeof(text));
    table_add(table, sv_from(text));
}

/* The fields of a call. Agent and engine can write what jansson does not hold. */
static const char *const shown[] = {
    "turn",
    "response",
    "logprobs",
    "completion_tokens",
    "role",
    "prompt_token_ids",
    "per_token_logps",
    "completion_token_ids",
    "finish_reason",
    "latency_s",
    "timestamp",
    "schema",
    "session",
    "dialect",
    "parent",
    "edits",
    "sampling",
    "usage",
    "status",
    "end",
    "trainable",
    "findings",
    "ttft_s",
    "engine",
    "model",
    "policy_version",
    "agent_session",
    "upstream_status",
    "upstream_error",
    NULL,
};

static int take_line(void *arg, struct sv text, struct err *err) {
    struct showing *s = arg;
    AUTO_JSON json_t *line = json_loose(text, shown);
    if (!line) {
        return err_set(err, ERR_CORRUPT, "the trace has a line that is no JSON object");
    }
    if (s->wanted) {
        if (json_integer_value(json_object_get(line, "turn")) == s->wanted && !s->turn) {
            s->turn = TAKE(line);
        }
        return 0;
    }
    if (s->lines) {
        return json_array_append(s->lines, line) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
    }
    add_row(&s->table, line);
    return 0;
}

static int print_turn(const struct args *a, struct showing *s, const struct store_row *row,
                      struct err *err) {
    if (!s->turn) {
        return err_set(err, ERR_NOT_FOUND, "rollout '%s' has no turn %lld (see 'snaffle show %s')",
                       row->rollout, s->wanted, row->rollout);
    }
    return args_has(a, "json") ? out_json(TAKE(s->turn), err) : show_turn(s->turn, stdout, err);
}

static int print_heading(const struct store_row *row, const json_t *result, struct err *err) {
    const char *version = json_string_value(json_object_get(result, "agent_version"));
    AUTO_FREE char *rollout = mem_printf("%s/%s", row->run, row->rollout);
    AUTO_FREE char *agent = mem_printf("%s%s%s, model %s", row->agent, version ? " " : "",
                                       version ? version : "", row->model);
    if (!rollout || !agent) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = summary_line("rollout", rollout, stdout, err);
    r = r < 0 ? r : summary_line("task", row->task_id, stdout, err);
    return r < 0 ? r : summary_line("agent", agent, stdout, err);
}

static int print_all(const struct args *a, struct showing *s, const struct store_row *row,
                     struct err *err) {
    AUTO_JSON json_t *result = NULL;
    int r = kept_result(row, &result, err);
    if (r < 0) {
        return r;
    }
    if (args_has(a, "json")) {
        return out_json(json_pack("{s:o, s:O?, s:O}", "rollout", store_row_to_json(row), "result",
                                  result, "turns", s->lines),
                        err);
    }
    r = print_heading(row, result, err);
    if (r == 0 && result) {
        r = summary_print(result, row->dir, stdout, err);
    } else if (r == 0) {
        (void)printf("%-12sopen: it runs, or its process died\n%-12s%s\n", "status", "folder",
                     row->dir);
    }
    (void)fputc('\n', stdout);
    r = r < 0 ? r : table_print(&s->table, stdout, 0, err);
    return r < 0 ? r
                 : explain_findings(json_object_get(result, "findings"),
                                    "\nwhat the findings mean\n", stdout, err);
}

static int show(const struct args *a, struct store *store, const struct store_row *row,
                struct err *err) {
    struct showing s = {.wanted = args_count(a, "turn", 0)};
    table_init(&s.table, columns, ARRAY_LEN(columns));
    s.lines = args_has(a, "json") ? json_array() : NULL;
    int r = kept_trace(store, row, take_line, &s, err);
    if (r == 0) {
        r = s.wanted ? print_turn(a, &s, row, err) : print_all(a, &s, row, err);
    }
    json_decref(s.turn);
    json_decref(s.lines);
    table_deinit(&s.table);
    return r;
}

static int run(const struct args *a, struct err *err) {
    struct store *store = NULL;
    struct store_row row = {0};
    if (args_has(a, "turn") && args_count(a, "turn", 0) == 0) {
        return err_set(err, ERR_USAGE, "show: --turn: turns are counted from 1");
    }
    int r = kept_find(a, &store, &row, err);
    if (r < 0) {
        return r;
    }
    r = show(a, store, &row, err);
    store_row_deinit(&row);
    store_close(store);
    return r;
}

const struct command cmd_show = {
    .name = "show",
    .summary = "show a rollout's turns, or one turn with its tokens",
    .operands = "ROLLOUT",
    .operands_min = 1,
    .operands_max = 1,
    .options =
        (const struct option[]){
            KEPT_RUNS_OPTION,
            {"turn", OPTION_COUNT, "N",
             "show this turn: its text, tool calls, and tokens with ids "
             "and log-probabilities",
             NULL},
            {"json", OPTION_SWITCH, NULL, "print JSON", NULL},
            {0},
        },
    .notes = "ROLLOUT is a rollout's name, RUN/ROLLOUT, a part from the front that fits one only, "
             "or\n'last'. Works while the rollout still runs.",
    .run = run,
};
