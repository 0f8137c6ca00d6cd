/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store.h"

#include "tests/unit/store/fixture.h"

static void a_rollout_gets_a_new_folder_of_its_own(void **state) {
    (void)state;
    struct err err = {0};
    begin("r1", "a");
    assert_true(there("r1", "a", "."));
    AUTO_FREE char *journal = store_journal_path(store, "r1");
    assert_true(file_exists(journal));
    const struct store_begin again = {.run = "r1", .rollout = "a"};
    assert_err(store_begin_rollout(store, &again, &err), ERR_EXISTS, &err, "'r1/a'");
}

static void bad_names_make_nothing(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",         ".",   "..",
        "../x",     "a/b", "A",
        "-a",       "a_b", "a b",
        "\xc3\xa9", "a\n", "0123456789012345678901234567890123456789012345678901234567890123"};
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const struct store_begin run = {.run = bad[i], .rollout = "a"};
        const struct store_begin rollout = {.run = "r", .rollout = bad[i]};
        assert_err(store_begin_rollout(store, &run, &err), ERR_INPUT, &err, "the run's name");
        assert_err(store_begin_rollout(store, &rollout, &err), ERR_INPUT, &err,
                   "the rollout's name");
        assert_err(store_make_run(store, bad[i], &err), ERR_INPUT, &err, "the run's name");
        assert_err(store_put(store, "r", bad[i], "x", SV(""), &err), ERR_INPUT, &err, "name");
    }
    const struct store_begin taken = {.run = "r", .rollout = "journal"};
    assert_err(store_begin_rollout(store, &taken, &err), ERR_INPUT, &err, "is taken");
    struct store_rows rows = listed((struct store_query){0});
    assert_int_equal(rows.n, 0);
    assert_false(there("r", ".", "."));
}

static void earlier_attempts_move_aside(void **state) {
    (void)state;
    struct err err = {0};
    begin("r1", "a");
    assert_ok(store_put(store, "r1", "a", "agent.log", SV("one"), &err), &err);
    assert_ok(store_put_file(store, "r1", "a", SV("d/f"), SV("1"), &err), &err);
    assert_ok(store_keep_attempt(store, "r1", "a", 1, &err), &err);
    assert_true(there("r1", "a", "attempts/1/agent.log"));
    assert_true(there("r1", "a", "attempts/1/files/d/f"));
    assert_false(there("r1", "a", "agent.log"));
    assert_ok(store_put(store, "r1", "a", "agent.log", SV("two"), &err), &err);
    assert_ok(store_keep_attempt(store, "r1", "a", 2, &err), &err);
    assert_true(there("r1", "a", "attempts/2/agent.log"));
    assert_false(there("r1", "a", "attempts/2/attempts"));
    assert_err(store_keep_attempt(store, "r1", "a", 2, &err), ERR_EXISTS, &err, "attempts/2");
}

static void a_result_is_written_and_listed(void **state) {
    (void)state;
    begin("r1", "a");
    end("r1", "a", "ok", "\"reward\":0.5,\"cause\":\"agent_crash\",\"group\":\"g\",");
    assert_true(there("r1", "a", "result.json"));
    struct store_rows rows = listed((struct store_query){0});
    assert_int_equal(rows.n, 1);
    const struct store_row *row = &rows.rows[0];
    assert_string_equal(row->run, "r1");
    assert_string_equal(row->rollout, "a");
    assert_string_equal(row->group, "g");
    assert_string_equal(row->status, "ok");
    assert_string_equal(row->cause, "agent_crash");
    assert_string_equal(row->model, "m"); /* As it was at the beginning. */
    assert_int_equal(row->attempt, 2);
    assert_true(row->has_reward && row->reward == 0.5);
    assert_true(row->started > 1e9);
    assert_true(row->wall_s == 2.5);
    assert_int_equal(row->turns, 2);
    assert_int_equal(row->completion_tokens, 2);
    AUTO_FREE char *dir = store_rollout_path(store, "r1", "a");
    assert_string_equal(row->dir, dir);
    AUTO_JSON json_t *json = store_row_to_json(row);
    assert_true(json_real_value(json_object_get(json, "reward")) == 0.5);
    store_rows_deinit(&rows);
}

static void a_reward_that_is_none_stays_none(void **state) {
    (void)state;
    begin("r1", "a");
    end("r1", "a", "failed", "\"reward\":null,\"cause\":null,");
    struct store_rows rows = listed((struct store_query){0});
    assert_false(rows.rows[0].has_reward);
    assert_string_equal(rows.rows[0].cause, "");
    AUTO_JSON json_t *json = store_row_to_json(&rows.rows[0]);
    assert_true(json_is_null(json_object_get(json, "reward")));
    store_rows_deinit(&rows);
}

static void names_are_made_from_any_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *want;
    } all[] = {{"binary_search", "binary-search-3"},
               {"Fix  It!", "fix-it-3"},
               {"--", "task-3"},
               {"", "task-3"},
               {"\xc3\xa9t\xc3\xa9", "t-3"},
               {"0123456789012345678901234567890123456789012345678901234567890123456789",
                "0123456789012345678901234567890123456789012345678901234567890-3"}};
    char name[STORE_NAME_MAX + 1];
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        store_name_from(all[i].text, 3, name);
        assert_string_equal(name, all[i].want);
        assert_ok(store_check_name("rollout", name, &err), &err);
    }
    char other[STORE_NAME_MAX + 1];
    store_new_run_name(name);
    store_new_run_name(other);
    assert_ok(store_check_name("run", name, &err), &err);
    assert_int_equal(strlen(name), strlen("20261130-013105-4fa1c2"));
    assert_string_not_equal(name, other);
}

static const struct CMUnitTest tests[] = {
    TEST(a_rollout_gets_a_new_folder_of_its_own),
    TEST(bad_names_make_nothing),
    TEST(earlier_attempts_move_aside),
    TEST(a_result_is_written_and_listed),
    TEST(a_reward_that_is_none_stays_none),
    TEST(names_are_made_from_any_text),
};

RUN_TESTS(tests)
