/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_UNIT_STORE_FIXTURE_H
#define SNAFFLE_TESTS_UNIT_STORE_FIXTURE_H

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "store/store.h"
#include "tests/testing.h"

/* A folder of the test program's own, and a store in it, new for each case. */
static char root[] = "/tmp/snaffle-store-test.XXXXXX";
static struct store *store;

static inline struct store *open_store(void) {
    struct err err = {0};
    struct store *s = NULL;
    AUTO_FREE char *dir = file_join(root, "runs");
    assert_ok(store_open(dir, &s, &err), &err);
    return s;
}

static inline int make_store(void **state) {
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    if (!mkdtemp(root)) {
        return -1;
    }
    store = open_store();
    return 0;
}

static inline int remove_store(void **state) {
    (void)state;
    store_close(store);
    store = NULL;
    return file_remove_tree(root, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_store, remove_store)

static inline void begin(const char *run, const char *rollout) {
    struct err err = {0};
    const struct store_begin b = {.run = run,
                                  .rollout = rollout,
                                  .task_id = "sum",
                                  .agent = "opencode",
                                  .backend = "local",
                                  .model = "m"};
    assert_ok(store_begin_rollout(store, &b, &err), &err);
}

/* Ends a rollout with a result; `more` are further fields, each followed by a comma. */
static inline void end(const char *run, const char *rollout, const char *status, const char *more) {
    struct err err = {0};
    AUTO_JSON json_t *result = NULL;
    AUTO_FREE char *text =
        mem_printf("{%s\"status\":\"%s\",\"proxy_turns\":[{\"completion_token_ids\":[1,2]},{}],"
                   "\"wall_s\":2.5,\"attempt\":2,\"task_id\":\"sum\"}",
                   more, status);
    assert_ok(json_parse(sv_from(text), "result", &result, &err), &err);
    assert_ok(store_put_result(store, run, rollout, result, &err), &err);
}

/* Whether RUN/ROLLOUT/NAME is there. */
static inline int there(const char *run, const char *rollout, const char *name) {
    AUTO_FREE char *dir = store_rollout_path(store, run, rollout);
    AUTO_FREE char *path = file_join(dir, name);
    struct stat st;
    return lstat(path, &st) == 0;
}

static inline struct store_rows listed(struct store_query q) {
    struct err err = {0};
    struct store_rows rows = {0};
    assert_ok(store_list(store, &q, &rows, &err), &err);
    return rows;
}

#endif
