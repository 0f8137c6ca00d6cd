/* SPDX-License-Identifier: BSD-3-Clause */
#include <sys/wait.h>

#include "tests/unit/store/fixture.h"

static char *index_path(const char *name) {
    return file_join(store_dir(store), name);
}

static void fill(void) {
    begin("r1", "a");
    end("r1", "a", "ok", "\"reward\":1.0,\"started\":100.5,\"model\":\"m\",");
    begin("r1", "b");
    end("r1", "b", "failed", "\"cause\":\"setup_failed\",\"started\":300.0,\"model\":\"m\",");
    begin("r2", "a");
    end("r2", "a", "ok", "\"started\":200.0,\"model\":\"m\",\"group\":\"g\",");
    begin("r2", "c");
}

static void list_is(struct store_query q, const char *want) {
    struct store_rows rows = listed(q);
    AUTO_BUF struct buf got = {0};
    for (size_t i = 0; i < rows.n; i++) {
        assert_int_equal(
            buf_addf(&got, "%s%s/%s", i ? " " : "", rows.rows[i].run, rows.rows[i].rollout), 0);
    }
    store_rows_deinit(&rows);
    assert_string_equal(buf_cstr(&got), want);
}

static void the_newest_come_first_and_queries_narrow(void **state) {
    (void)state;
    fill();
    list_is((struct store_query){0}, "r2/c r1/b r2/a r1/a");
    list_is((struct store_query){.limit = 2}, "r2/c r1/b");
    list_is((struct store_query){.run = "r1"}, "r1/b r1/a");
    list_is((struct store_query){.status = "ok"}, "r2/a r1/a");
    list_is((struct store_query){.status = "open"}, "r2/c");
    list_is((struct store_query){.cause = "setup_failed"}, "r1/b");
    list_is((struct store_query){.run = "r1", .status = "ok", .task_id = "sum"}, "r1/a");
    list_is((struct store_query){.group = "g"}, "r2/a");
    list_is((struct store_query){.run = "x' OR 1"}, "");
}

static void found(const char *name, const char *run, const char *rollout) {
    struct err err = {0};
    struct store_row row = {0};
    assert_ok(store_find(store, name, &row, &err), &err);
    assert_string_equal(row.run, run);
    assert_string_equal(row.rollout, rollout);
    store_row_deinit(&row);
}

static void not_found(const char *name, int code, const char *words) {
    struct err err = {0};
    struct store_row row = {0};
    assert_err(store_find(store, name, &row, &err), code, &err, words);
    assert_null(row.run);
}

static void a_rollout_is_found_by_name_path_or_unique_prefix(void **state) {
    (void)state;
    fill();
    begin("r2", "cc");
    found("b", "r1", "b");
    found("r1/a", "r1", "a");
    found("r1/a/", "r1", "a");
    found("c", "r2", "c"); /* The full name wins over a prefix. */
    found("r2/cc", "r2", "cc");
    found("cc", "r2", "cc");
    found("last", "r2", "cc");
    AUTO_FREE char *path = store_rollout_path(store, "r2", "a");
    found(path, "r2", "a");
    not_found("a", ERR_INPUT, "'a' fits several rollouts: r2/a, r1/a (give more of the name)");
    not_found("r", ERR_INPUT, "fits several rollouts");
    not_found("r1", ERR_INPUT, "fits several rollouts");
    not_found("x", ERR_NOT_FOUND, "no rollout 'x' in");
    not_found("", ERR_NOT_FOUND, "no rollout ''");
    not_found("%", ERR_NOT_FOUND, "no rollout '%'");
    not_found("r1/../r2", ERR_NOT_FOUND, "no rollout");
    begin("only", "one");
    found("on", "only", "one");
    found("only", "only", "one");
}

static void a_folder_that_the_index_does_not_know_is_found_by_its_full_name(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *dir = store_rollout_path(store, "old", "x");
    AUTO_FREE char *result = file_join(dir, "result.json");
    assert_ok(file_mkdirs(dir, 0700, &err), &err);
    assert_ok(file_write(result, SV("{\"status\":\"ok\"}"), 0600, &err), &err);
    found("old/x", "old", "x");
    not_found("old/journal", ERR_NOT_FOUND, "no rollout");
}

static void put_result_alone(const char *run, const char *rollout, const char *text) {
    struct err err = {0};
    assert_ok(store_put(store, run, rollout, "result.json", sv_from(text), &err), &err);
}

/* Its process was killed between the result and the row. */
static void a_result_without_its_row_is_listed_all_the_same(void **state) {
    (void)state;
    struct err err = {0};
    fill();
    put_result_alone("r2", "c",
                     "{\"status\":\"ok\",\"completion_tokens\":7,\"proxy_turns\":[{},{}]}");
    list_is((struct store_query){.status = "open"}, "");
    struct store_rows rows = listed((struct store_query){.run = "r2", .limit = 1});
    assert_string_equal(rows.rows[0].rollout, "c");
    assert_string_equal(rows.rows[0].status, "ok");
    assert_string_equal(rows.rows[0].agent, "opencode");
    assert_int_equal(rows.rows[0].turns, 2);
    assert_int_equal(rows.rows[0].completion_tokens, 7);
    store_rows_deinit(&rows);
    assert_ok(store_keep_attempt(store, "r1", "b", 1, &err), &err);
    list_is((struct store_query){.status = "open"}, "r1/b");
    put_result_alone("r1", "b", "{\"status\":\"ok\",\"attempt\":2}");
    list_is((struct store_query){.status = "failed"}, "");
    put_result_alone("r1", "b", "{");
    list_is((struct store_query){.run = "r1", .status = "ok"}, "r1/b r1/a");
}

static void close_and(void (*spoil)(void)) {
    store_close(store);
    store = NULL;
    spoil();
    store = open_store();
}

static void remove_index(void) {
    AUTO_FREE char *path = mem_printf("%s/runs/index.db", root);
    assert_int_equal(unlink(path), 0);
}

static void spoil_index(void) {
    struct err err = {0};
    AUTO_FREE char *path = mem_printf("%s/runs/index.db", root);
    assert_ok(file_write(path, SV("this is no database at all, but long enough to be looked at"),
                         0600, &err),
              &err);
}

static void a_missing_or_damaged_index_is_built_anew(void **state) {
    (void)state;
    fill();
    close_and(remove_index);
    list_is((struct store_query){.run = "r1"}, "r1/b r1/a");
    list_is((struct store_query){.status = "open"}, "r2/c");
    close_and(spoil_index);
    list_is((struct store_query){.status = "ok"}, "r2/a r1/a");
    found("r1/b", "r1", "b");
}

static void damage_met_in_use_is_repaired(void **state) {
    (void)state;
    fill();
    /* Everything into the file, then garbage over the table's pages. */
    close_and(remove_index);
    store_close(store);
    AUTO_FREE char *path = mem_printf("%s/runs/index.db", root);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    store = open_store();
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, 4096, SEEK_SET);
    for (long i = 4096; i < st.st_size; i++) {
        fputc(0xa5, f);
    }
    fclose(f);
    list_is((struct store_query){.status = "ok"}, "r2/a r1/a");
    begin("r3", "z");
    list_is((struct store_query){.run = "r3"}, "r3/z");
}

static void rebuilding_by_hand_gives_the_same_rows(void **state) {
    (void)state;
    struct err err = {0};
    fill();
    size_t n = 0;
    assert_ok(store_index_rebuild(store, &n, &err), &err);
    assert_int_equal(n, 4);
    list_is((struct store_query){.status = "ok"}, "r2/a r1/a");
    struct store_row row = {0};
    assert_ok(store_find(store, "r1/a", &row, &err), &err);
    assert_true(row.has_reward && row.reward == 1.0);
    assert_true(row.started == 100.5);
    assert_int_equal(row.completion_tokens, 2);
    assert_string_equal(row.model, "m");
    store_row_deinit(&row);
}

static void spoilt_results_and_strange_folders_do_not_stop_a_rebuild(void **state) {
    (void)state;
    struct err err = {0};
    fill();
    static const char *const folders[] = {"r1/.x", "r1/Upper", ".git/a", "r1/a/attempts/1",
                                          "empty"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        AUTO_FREE char *path = index_path(folders[i]);
        assert_ok(file_mkdirs(path, 0700, &err), &err);
    }
    assert_ok(store_put(store, "r1", "b", "result.json", SV("{\"status\":"), &err), &err);
    AUTO_FREE char *link = index_path("r1/link");
    assert_int_equal(symlink("/tmp", link), 0);
    size_t n = 0;
    assert_ok(store_index_rebuild(store, &n, &err), &err);
    assert_int_equal(n, 4);
    list_is((struct store_query){.run = "r1", .status = "open"}, "r1/b");
}

#define WRITERS 4
#define EACH 25

static void several_processes_write_at_once(void **state) {
    (void)state;
    pid_t pids[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        pids[w] = fork();
        assert_true(pids[w] >= 0);
        if (pids[w] == 0) {
            store = open_store();
            for (int i = 0; i < EACH; i++) {
                char name[32];
                snprintf(name, sizeof name, "w%d-%d", w, i);
                begin("r1", name);
                end("r1", name, "ok", "");
            }
            store_close(store);
            _exit(0);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = -1;
        assert_int_equal(waitpid(pids[w], &status, 0), pids[w]);
        assert_int_equal(status, 0);
    }
    struct store_rows rows = listed((struct store_query){.status = "ok"});
    assert_int_equal(rows.n, WRITERS * EACH);
    store_rows_deinit(&rows);
}

static const struct CMUnitTest tests[] = {
    TEST(the_newest_come_first_and_queries_narrow),
    TEST(a_rollout_is_found_by_name_path_or_unique_prefix),
    TEST(a_folder_that_the_index_does_not_know_is_found_by_its_full_name),
    TEST(a_result_without_its_row_is_listed_all_the_same),
    TEST(a_missing_or_damaged_index_is_built_anew),
    TEST(damage_met_in_use_is_repaired),
    TEST(rebuilding_by_hand_gives_the_same_rows),
    TEST(spoilt_results_and_strange_folders_do_not_stop_a_rebuild),
    TEST(several_processes_write_at_once),
};

RUN_TESTS(tests)
