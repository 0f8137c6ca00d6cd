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

static void wrong_addresses_are_told_at_once(void **state) {
    (void)state;
    static const struct {
        const char *public_url, *listen, *says;
    } rows[] = {
        {"ftp://x", NULL, "public_url: "},     {"http://x/?q", NULL, "has a query"},
        {"http://x", "7000", "ADDRESS:"},      {"http://x", ":7000", "ADDRESS:"},
        {"http://x", "::1:70000", "ADDRESS:"}, {"http://x", "a:", "ADDRESS:"},
        {NULL, "127.0.0.1:0", "--public-url"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct rollout_records *r = NULL;
        struct err err = {0};
        struct rollout_records_options o = {
            .runs_dir = dir, .public_url = rows[i].public_url, .listen = rows[i].listen};
        assert_err(rollout_records_new(&o, &r, &err), ERR_INPUT, &err, rows[i].says);
        assert_null(r);
    }
}

/* Gives the port, or 0 with `err`. */
static uint16_t port_of(const char *public_url, const char *listen, struct err *err) {
    struct rollout_records *r = NULL;
    struct rollout_records_options o = {
        .runs_dir = dir, .public_url = public_url, .listen = listen};
    assert_ok(rollout_records_new(&o, &r, err), err);
    uint16_t port = rollout_records_open(r, err) == 0 ? gateway_port(r->gateway) : 0;
    assert_true(port == 0 || r->gateway);
    rollout_records_free(r);
    return port;
}

static void the_gateway_listens_only_with_a_public_address_and_on_loopback(void **state) {
    (void)state;
    struct err err = {0};
    struct rollout_records *r = records_of(NULL);
    assert_ok(rollout_records_open(r, &err), &err);
    assert_int_equal(gateway_port(r->gateway), 0);
    rollout_records_free(r);
    assert_int_not_equal(port_of("http://x", "127.0.0.1:0", &err), 0);
    assert_int_not_equal(port_of("http://x", "[::1]:0", &err), 0);
    /* Another program may have the port that it has by itself. */
    uint16_t port = port_of("http://x", NULL, &err);
    assert_true(port == 7000 || strstr(err.msg, "'127.0.0.1' port 7000"));
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
    cmocka_unit_test_setup_teardown(wrong_addresses_are_told_at_once, set_up, take_down),
    cmocka_unit_test_setup_teardown(the_gateway_listens_only_with_a_public_address_and_on_loopback,
                                    set_up, take_down),
    cmocka_unit_test_setup_teardown(two_factories_on_the_same_records_write_the_same_run, set_up,
                                    take_down),
};

RUN_TESTS(tests)
