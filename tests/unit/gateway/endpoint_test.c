/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/endpoint.h"

#include "base/clock.h"
#include "tests/testing.h"

static const char *const three[] = {"http://a.test/v1", "http://b.test:8000", "http://c.test/v1/",
                                    NULL};

struct ground {
    struct endpoints table;
    struct endpoint_set *set;
};

static void set_up(struct ground *g, const char *const *urls) {
    struct err e = {0};
    endpoints_init(&g->table);
    assert_ok(endpoint_set_new(&g->table, urls, ENGINE_UNKNOWN, &g->set, &e), &e);
}

static void tear_down(struct ground *g) {
    endpoint_set_unref(g->set);
    endpoints_deinit(&g->table);
}

static void a_base_with_and_without_v1_gives_the_same_routes(void **state) {
    static const char *const targets[] = {"/v1/chat/completions", "/v1/models"};
    struct ground g;
    (void)state;
    set_up(&g, three);
    assert_int_equal(g.set->n, 3);
    for (unsigned i = 0; i < g.set->n; i++) {
        assert_string_equal(g.set->list[i]->chat_target, targets[0]);
        assert_string_equal(g.set->list[i]->models_target, targets[1]);
    }
    assert_string_equal(g.set->list[1]->host_field, "b.test:8000");
    tear_down(&g);
}

static void equal_urls_are_one_place_within_and_across_sets(void **state) {
    static const char *const twice[] = {"http://a.test/v1", "http://a.test/v1", NULL};
    struct endpoint_set *other = NULL;
    struct err e = {0};
    struct ground g;
    (void)state;
    set_up(&g, three);
    assert_ok(endpoint_set_new(&g.table, twice, ENGINE_UNKNOWN, &other, &e), &e);
    assert_int_equal(other->n, 1);
    assert_ptr_equal(other->list[0], g.set->list[0]);
    assert_true(endpoint_set_has(g.set, other->list[0]));
    endpoint_set_unref(other);
    tear_down(&g);
}

static void one_url_of_which_different_things_are_said_is_two_places(void **state) {
    static const char *const url[] = {"http://a.test/v1", NULL};
    struct endpoint_set *stated[2] = {0};
    struct err e = {0};
    struct ground g;
    (void)state;
    set_up(&g, url);
    for (int i = 0; i < 2; i++) {
        assert_ok(endpoint_set_new(&g.table, url, ENGINE_SGLANG, &stated[i], &e), &e);
    }
    assert_ptr_equal(stated[0]->list[0], stated[1]->list[0]);
    assert_ptr_not_equal(stated[0]->list[0], g.set->list[0]);
    assert_int_equal(known_profile(&stated[0]->list[0]->known)->engine, ENGINE_SGLANG);
    known_learn_engine(&stated[0]->list[0]->known, ENGINE_VLLM); /* What is stated stays. */
    assert_int_equal(known_profile(&stated[0]->list[0]->known)->engine, ENGINE_SGLANG);
    assert_int_equal(known_profile(&g.set->list[0]->known)->engine, ENGINE_UNKNOWN);
    endpoint_set_unref(stated[0]);
    endpoint_set_unref(stated[1]);
    tear_down(&g);
}

static void a_bad_url_leaves_nothing_behind(void **state) {
    static const char *const bad[] = {"http://a.test", "nowhere", NULL};
    static const char *const none[] = {NULL};
    struct endpoints t;
    struct endpoint_set *set = NULL;
    struct err e = {0};
    (void)state;
    endpoints_init(&t);
    assert_int_equal(endpoint_set_new(&t, bad, ENGINE_UNKNOWN, &set, &e), ERR_INPUT);
    assert_int_equal(endpoint_set_new(&t, none, ENGINE_UNKNOWN, &set, &e), ERR_INPUT);
    assert_null(t.first);
    endpoints_deinit(&t);
}

static void the_least_busy_is_picked_and_of_equals_the_one_with_fewer_sessions(void **state) {
    struct ground g;
    (void)state;
    set_up(&g, three);
    g.set->list[0]->calls = 2;
    g.set->list[1]->calls = 1;
    g.set->list[1]->sessions = 5;
    g.set->list[2]->calls = 1;
    g.set->list[2]->sessions = 4;
    assert_ptr_equal(endpoint_set_pick(g.set), g.set->list[2]);
    g.set->list[1]->calls = 0;
    assert_ptr_equal(endpoint_set_pick(g.set), g.set->list[1]);
    tear_down(&g);
}

static void one_that_refused_is_left_out_and_then_given_to_one_caller_to_try(void **state) {
    struct ground g;
    (void)state;
    set_up(&g, three);
    struct endpoint *dead = g.set->list[0];
    g.set->list[1]->calls = g.set->list[2]->calls = 9;
    endpoint_note(dead, /* connected= */ false);
    assert_true(endpoint_is_out(dead));
    assert_ptr_not_equal(endpoint_set_pick(g.set), dead);
    dead->out_until_ms = clock_ms(); /* It is due. */
    assert_ptr_equal(endpoint_set_pick(g.set), dead);
    assert_ptr_not_equal(endpoint_set_pick(g.set), dead);
    endpoint_note(dead, /* connected= */ true);
    assert_false(endpoint_is_out(dead));
    assert_ptr_equal(endpoint_set_pick(g.set), dead);
    tear_down(&g);
}

static void refusals_in_a_row_leave_it_out_for_longer_up_to_a_limit(void **state) {
    struct ground g;
    int64_t last = 0;
    (void)state;
    set_up(&g, three);
    for (int i = 0; i < 12; i++) {
        endpoint_note(g.set->list[0], /* connected= */ false);
        int64_t left = g.set->list[0]->out_until_ms - clock_ms();
        assert_true(left <= ENDPOINT_OUT_MAX_MS);
        assert_true(i >= 5 || left > last);
        last = left;
    }
    tear_down(&g);
}

static void when_all_are_out_the_one_that_is_due_first_is_tried(void **state) {
    struct ground g;
    (void)state;
    set_up(&g, three);
    for (unsigned i = 0; i < g.set->n; i++) {
        endpoint_note(g.set->list[i], /* connected= */ false);
        g.set->list[i]->out_until_ms = clock_ms() + 60000 - 1000 * (int64_t)i;
    }
    assert_ptr_equal(endpoint_set_pick(g.set), g.set->list[2]);
    tear_down(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_base_with_and_without_v1_gives_the_same_routes),
        cmocka_unit_test(equal_urls_are_one_place_within_and_across_sets),
        cmocka_unit_test(one_url_of_which_different_things_are_said_is_two_places),
        cmocka_unit_test(a_bad_url_leaves_nothing_behind),
        cmocka_unit_test(the_least_busy_is_picked_and_of_equals_the_one_with_fewer_sessions),
        cmocka_unit_test(one_that_refused_is_left_out_and_then_given_to_one_caller_to_try),
        cmocka_unit_test(refusals_in_a_row_leave_it_out_for_longer_up_to_a_limit),
        cmocka_unit_test(when_all_are_out_the_one_that_is_due_first_is_tried),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
