/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/batch.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "rollout/batch_room.h"
#include "tests/testing.h"

struct ground {
    char dir[64];
    struct store *store;
    struct task tasks[2];
    struct task_list list;
    struct batch_plan plan;
};

/* Its fields (JSON text with ' for ") in place of what was there. */
static void task_of(const char *id, const char *fields, struct task *out) {
    struct err err = {0};
    AUTO_FREE char *text = mem_printf("{'task_id': '%s', %s}", id, fields);
    for (char *c = text; *c; c++) {
        *c = *c == '\'' ? '"' : *c;
    }
    task_deinit(out);
    assert_ok(task_parse(sv_from(text), "test", NULL, out, &err), &err);
}

static int set_up(void **state) {
    struct ground *g = calloc(1, sizeof *g);
    struct err err = {0};
    assert_non_null(g);
    snprintf(g->dir, sizeof g->dir, "/tmp/snaffle-batch-XXXXXX");
    assert_non_null(mkdtemp(g->dir));
    assert_ok(store_open(g->dir, &g->store, &err), &err);
    task_of("Sort_It", "'instruction': 'sort'", &g->tasks[0]);
    task_of("count", "'instruction': 'count'", &g->tasks[1]);
    g->list = (struct task_list){.tasks = g->tasks, .n = 2};
    assert_ok(batch_plan_make(&g->list, 3, &g->plan, &err), &err);
    *state = g;
    return 0;
}

static int take_down(void **state) {
    struct ground *g = *state;
    batch_plan_deinit(&g->plan);
    task_deinit(&g->tasks[0]);
    task_deinit(&g->tasks[1]);
    store_close(g->store);
    int r = file_remove_tree(g->dir, NULL);
    free(g);
    return r;
}

static void names_follow_from_the_task_and_the_index(void **state) {
    struct ground *g = *state;
    assert_int_equal(g->plan.n, 6);
    assert_string_equal(g->plan.items[0].group, "sort-it");
    assert_string_equal(g->plan.items[0].rollout, "sort-it-0");
    assert_string_equal(g->plan.items[2].rollout, "sort-it-2");
    assert_string_equal(g->plan.items[5].group, "count");
    assert_string_equal(g->plan.items[5].rollout, "count-2");
}

static void ids_that_give_one_name_are_refused(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    struct batch_plan p = {0};
    task_of("sort.it", "'instruction': 'count'", &g->tasks[1]);
    assert_int_equal(batch_plan_make(&g->list, 2, &p, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "'sort-it-0'"));
    assert_int_equal(batch_plan_make(&g->list, 0, &p, &err), ERR_INPUT);
}

/* A rollout's folder, with a result unless `result` is NULL (with ' for "). */
static void leave(const struct ground *g, const char *rollout, const char *result) {
    struct err err = {0};
    AUTO_FREE char *dir = store_rollout_path(g->store, "r", rollout);
    assert_ok(file_mkdirs(dir, 0777, &err), &err);
    if (result) {
        AUTO_FREE char *path = file_join(dir, "result.json");
        AUTO_FREE char *text = mem_strdup(result);
        for (char *c = text; *c; c++) {
            *c = *c == '\'' ? '"' : *c;
        }
        assert_ok(file_write(path, sv_from(text), 0644, &err), &err);
    }
}

static void going_on_keeps_what_ended_for_good_and_does_the_rest_again(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    size_t left = 0;
    leave(g, "sort-it-0",
          "{'status':'ok','reward':0.5,'attempt':2,'calls':3,"
          "'completion_tokens':7,'cause':'agent_crash'}");
    leave(g, "sort-it-1", "{'status':'failed','cause':'verify_crash','attempt':1}");
    leave(g, "sort-it-2", "{'status':'failed','cause':'upstream_down','attempt':4}");
    leave(g, "count-0", "{'status':'cancelled','attempt':1}");
    leave(g, "count-1", NULL);
    leave(g, "count-1/attempts/1", NULL);
    leave(g, "count-1/attempts/2", NULL);
    leave(g, "sort-it-2/attempts/3", NULL);
    assert_ok(batch_plan_look_up(&g->plan, g->store, "r", true, &left, &err), &err);
    const struct batch_item *items = g->plan.items;
    assert_int_equal(left, 4);
    assert_true(items[0].kept && items[1].kept);
    assert_int_equal(items[0].state, BATCH_ENDED);
    assert_int_equal(items[0].attempt, 2);
    assert_int_equal(items[0].calls, 3);
    assert_true(items[0].has_reward);
    assert_false(items[2].kept || items[3].kept || items[4].kept || items[5].kept);
    assert_int_equal(items[2].attempt, 5);
    assert_int_equal(items[3].attempt, 2);
    assert_int_equal(items[4].attempt, 4);
    assert_int_equal(items[5].attempt, 1);
}

static void an_agent_without_calls_is_tried_again_once(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    size_t left = 0;
    leave(g, "sort-it-0", "{'status':'failed','cause':'agent_no_calls','attempt':1}");
    leave(g, "sort-it-1", "{'status':'failed','cause':'agent_no_calls','attempt':2}");
    assert_ok(batch_plan_look_up(&g->plan, g->store, "r", true, &left, &err), &err);
    assert_false(g->plan.items[0].kept);
    assert_true(g->plan.items[1].kept);
}

static void a_result_that_is_cut_short_is_none(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    size_t left = 0;
    leave(g, "sort-it-0", "{'status':'ok','rewa");
    assert_ok(batch_plan_look_up(&g->plan, g->store, "r", true, &left, &err), &err);
    assert_int_equal(left, 6);
    assert_int_equal(g->plan.items[0].attempt, 2);
}

static void without_going_on_a_rollout_that_is_there_is_refused(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    size_t left = 0;
    leave(g, "count-2", NULL);
    assert_int_equal(batch_plan_look_up(&g->plan, g->store, "r", false, &left, &err), ERR_EXISTS);
    assert_non_null(strstr(err.msg, "--resume"));
}

/* Also of a rollout that is over: a group is rollouts of one task. */
static void a_task_that_changed_is_told_and_nothing_touched(void **state) {
    struct ground *g = *state;
    struct err err = {0};
    size_t left = 0;
    leave(g, "count-0", "{'status':'ok','attempt':1}");
    AUTO_JSON json_t *was = task_to_json(&g->tasks[1]);
    AUTO_BUF struct buf text = {0};
    AUTO_FREE char *dir = store_rollout_path(g->store, "r", "count-0");
    AUTO_FREE char *path = file_join(dir, "task.json");
    assert_int_equal(json_pretty(was, &text), 0);
    assert_ok(file_write(path, buf_sv(&text), 0644, &err), &err);
    assert_ok(batch_plan_look_up(&g->plan, g->store, "r", true, &left, &err), &err);
    assert_int_equal(left, 5);

    task_of("count", "'instruction': 'count!', 'verify': ['true']", &g->tasks[1]);
    batch_plan_deinit(&g->plan);
    assert_ok(batch_plan_make(&g->list, 3, &g->plan, &err), &err);
    assert_int_equal(batch_plan_look_up(&g->plan, g->store, "r", true, &left, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "the task 'count' is another than when the run began"));
    assert_non_null(strstr(err.msg, "instruction, verify changed"));
    assert_non_null(strstr(err.msg, path));
    assert_non_null(strstr(err.msg, "another --run"));

    /* A field that is no longer there counts too. */
    struct task less = {0};
    task_of("count", "'instruction': 'count!'", &less);
    AUTO_JSON json_t *more = task_to_json(&g->tasks[1]);
    AUTO_BUF struct buf with = {0};
    assert_int_equal(json_pretty(more, &with), 0);
    assert_ok(file_write(path, buf_sv(&with), 0644, &err), &err);
    for (int i = 3; i < 6; i++) {
        g->plan.items[i].task = &less;
    }
    assert_int_equal(batch_plan_look_up(&g->plan, g->store, "r", true, &left, &err), ERR_INPUT);
    assert_non_null(strstr(err.msg, "began: verify changed"));
    task_deinit(&less);
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

static void pass_at_k_is_the_unbiased_estimate(void **state) {
    (void)state;
    assert_true(near(batch_pass_at(4, 0, 2), 0));
    assert_true(near(batch_pass_at(4, 4, 1), 1));
    assert_true(near(batch_pass_at(4, 1, 1), 0.25));
    assert_true(near(batch_pass_at(4, 1, 4), 1));
    assert_true(near(batch_pass_at(5, 2, 2), 1 - 3.0 / 10));    /* 1 - C(3,2)/C(5,2) */
    assert_true(near(batch_pass_at(10, 3, 5), 1 - 21.0 / 252)); /* 1 - C(7,5)/C(10,5) */
}

/* What stands for a rollout's end. */
static void end(struct batch_item *item, const char *status, double reward) {
    struct err err = {0};
    AUTO_JSON json_t *result = json_pack("{s:s, s:o, s:i, s:i}", "status", status, "reward",
                                         reward < 0 ? json_null() : json_real(reward), "calls", 2,
                                         "completion_tokens", 10);
    assert_ok(batch_item_take(item, result, "d", &err), &err);
}

static void totals_count_each_rollout_once_and_no_reward_is_not_0(void **state) {
    struct ground *g = *state;
    struct batch_totals t;
    double pass = 0;
    end(&g->plan.items[0], "ok", 1);
    end(&g->plan.items[1], "ok", 0);
    end(&g->plan.items[2], "failed", -1);
    end(&g->plan.items[3], "cancelled", -1);
    g->plan.items[1].kept = true;
    g->plan.items[4].state = BATCH_RUNNING;
    g->plan.items[4].phase = ROLLOUT_PHASE_AGENT;
    g->plan.items[4].calls = 1;
    batch_totals(&g->plan, &t);
    assert_int_equal(t.ok, 2);
    assert_int_equal(t.failed, 1);
    assert_int_equal(t.cancelled, 1);
    assert_int_equal(t.running, 1);
    assert_int_equal(t.in_phase[ROLLOUT_PHASE_AGENT], 1);
    assert_int_equal(t.waiting, 1);
    assert_int_equal(t.kept, 1);
    assert_int_equal(t.rewarded, 2);
    assert_true(near(t.reward_sum, 1));
    assert_int_equal(t.calls, 9);
    assert_int_equal(t.completion_tokens, 40);
    assert_int_equal(t.own_tokens, 30);
    assert_int_equal(batch_mean_pass_at(&g->plan, 1, &pass), 1);
    assert_true(near(pass, 0.5));
    assert_int_equal(batch_mean_pass_at(&g->plan, 3, &pass), 0);
}

static void the_exit_status_tells_all_good_some_failed_or_cancelled(void **state) {
    struct ground *g = *state;
    assert_int_equal(batch_exit_status(&g->plan, false), 1);
    for (size_t i = 0; i < g->plan.n; i++) {
        end(&g->plan.items[i], "ok", 0);
    }
    assert_int_equal(batch_exit_status(&g->plan, false), 0);
    end(&g->plan.items[3], "failed", -1);
    assert_int_equal(batch_exit_status(&g->plan, false), 1);
    assert_int_equal(batch_exit_status(&g->plan, true), 130);
}

static void json_holds_each_rollout_and_each_group(void **state) {
    struct ground *g = *state;
    end(&g->plan.items[0], "ok", 1);
    AUTO_JSON json_t *all = batch_to_json(&g->plan, "r", "runs/r", 60);
    assert_non_null(all);
    assert_int_equal(json_array_size(json_object_get(all, "rollouts")), 6);
    assert_int_equal(json_array_size(json_object_get(all, "groups")), 2);
    const json_t *totals = json_object_get(all, "totals");
    assert_int_equal(json_integer_value(json_object_get(totals, "not_started")), 5);
    assert_true(near(json_number_value(json_object_get(totals, "rollouts_per_min")), 1));
}

static void the_time_left_is_known_once_something_ended(void **state) {
    (void)state;
    assert_true(batch_eta_s(0, 10, 5) < 0);
    assert_true(near(batch_eta_s(2, 10, 5), 25));
    assert_true(near(batch_eta_s(2, 0, 5), 0));
}

static void too_little_disk_and_too_few_descriptors_are_told_with_the_remedy(void **state) {
    (void)state;
    struct err err = {0};
    assert_ok(batch_room_disk("/tmp", 1, "1 rollout", &err), &err);
    assert_int_equal(batch_room_disk("/tmp", UINT64_MAX / 2, "9 rollouts", &err), ERR_FULL);
    assert_non_null(strstr(err.msg, "9 rollouts need about"));
    assert_non_null(strstr(err.msg, "'/tmp'"));
    assert_int_equal(batch_room_descriptors(400000000, &err), ERR_ENVIRONMENT);
    assert_non_null(strstr(err.msg, "--concurrency"));
    assert_ok(batch_room_descriptors(4, &err), &err);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, take_down)

static const struct CMUnitTest tests[] = {
    CASE(names_follow_from_the_task_and_the_index),
    CASE(ids_that_give_one_name_are_refused),
    CASE(going_on_keeps_what_ended_for_good_and_does_the_rest_again),
    CASE(an_agent_without_calls_is_tried_again_once),
    CASE(a_result_that_is_cut_short_is_none),
    CASE(without_going_on_a_rollout_that_is_there_is_refused),
    CASE(a_task_that_changed_is_told_and_nothing_touched),
    CASE(pass_at_k_is_the_unbiased_estimate),
    CASE(totals_count_each_rollout_once_and_no_reward_is_not_0),
    CASE(the_exit_status_tells_all_good_some_failed_or_cancelled),
    CASE(json_holds_each_rollout_and_each_group),
    CASE(the_time_left_is_known_once_something_ended),
    CASE(too_little_disk_and_too_few_descriptors_are_told_with_the_remedy),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
