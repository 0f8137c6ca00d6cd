/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/records.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "rollout/factory_impl.h"
#include "tests/testing.h"
#include "tests/unit/rollout/fake_sandbox.h"

static char dir[64];

static int set_up(void **state) {
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/snaffle-records-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int take_down(void **state) {
    (void)state;
    struct err err = {0};
    assert_ok(file_remove_tree(dir, &err), &err);
    return 0;
}

static struct rollout_records *records_of(const char *run) {
    struct rollout_records *r = NULL;
    struct err err = {0};
    struct rollout_records_options o = {.runs_dir = dir, .run = run};
    assert_ok(rollout_records_new(&o, &r, &err), &err);
    return r;
}

static void nothing_is_made_before_they_are_opened(void **state) {
    (void)state;
    struct err err = {0};
    struct rollout_records *r = records_of("run");
    AUTO_FREE char *run = file_join(dir, "run");
    assert_null(r->gateway);
    assert_int_equal(file_exists(run), 0);
    assert_ok(rollout_records_open(r, &err), &err);
    assert_non_null(r->gateway);
    assert_int_equal(file_exists(run), 1);
    struct gateway *first = r->gateway;
    assert_ok(rollout_records_open(r, &err), &err);
    assert_ptr_equal(r->gateway, first);
    rollout_records_free(r);
}

static void a_bad_name_is_told_at_once(void **state) {
    (void)state;
    struct rollout_records *r = NULL;
    struct err err = {0};
    struct rollout_records_options o = {.runs_dir = dir, .run = "No Name"};
    assert_err(rollout_records_new(&o, &r, &err), ERR_INPUT, &err, "'No Name'");
    assert_null(r);
}

static const struct agent no_agent = {.name = "test"};

static void two_factories_on_the_same_records_write_the_same_run(void **state) {
    (void)state;
    struct err err = {0};
    struct rollout_records *r = records_of(NULL);
    struct agent_config config = {.base_url = "http://127.0.0.1:9/v1", .model = "m"};
    struct rollout_options o = {
        .using = &fake_backend, .running = &no_agent, .config = &config, .records = r};
    struct rollout_factory *a = NULL;
    struct rollout_factory *b = NULL;
    assert_ok(rollout_factory_new(&o, &a, &err), &err);
    assert_ok(rollout_factory_new(&o, &b, &err), &err);
    assert_ok(factory_open(a, &err), &err);
    rollout_factory_free(a);
    assert_ok(factory_open(b, &err), &err);
    assert_string_equal(rollout_factory_run(b), r->run);
    assert_ptr_equal(b->gateway, r->gateway);
    rollout_factory_free(b);
    rollout_records_free(r);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(nothing_is_made_before_they_are_opened, set_up, take_down),
    cmocka_unit_test_setup_teardown(a_bad_name_is_told_at_once, set_up, take_down),
    cmocka_unit_test_setup_teardown(two_factories_on_the_same_records_write_the_same_run, set_up,
                                    take_down),
};

RUN_TESTS(tests)
