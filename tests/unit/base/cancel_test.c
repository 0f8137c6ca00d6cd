/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/cancel.h"

#include <pthread.h>

#include "tests/testing.h"

static void *throw_soon(void *c) {
    clock_sleep_ms(20);
    cancel_throw(c);
    return NULL;
}

static void a_throw_from_another_thread_ends_a_sleep(void **state) {
    (void)state;
    struct err err = {0};
    struct cancel *c = NULL;
    assert_ok(cancel_new(&c, &err), &err);
    pthread_t t;
    pthread_create(&t, NULL, throw_soon, c);
    assert_int_equal(cancel_sleep(c, deadline_in_s(30), &err), ERR_CANCELLED);
    pthread_join(t, NULL);
    assert_true(cancel_thrown(c));
    assert_int_equal(cancel_sleep(c, deadline_in_s(30), &err), ERR_CANCELLED);
    cancel_free(c);
}

static void a_sleep_without_a_switch_ends_at_its_deadline(void **state) {
    (void)state;
    struct err err = {0};
    int64_t start = clock_ms();
    assert_int_equal(cancel_sleep(NULL, deadline_in_ms(15), &err), 0);
    assert_true(clock_ms() - start >= 15);
}

static void a_switch_under_another_is_thrown_with_it_but_not_the_other_way(void **state) {
    (void)state;
    struct err err = {0};
    struct cancel *parent = NULL, *child = NULL, *sibling = NULL;
    assert_ok(cancel_new(&parent, &err), &err);
    assert_ok(cancel_new_under(parent, &child, &err), &err);
    assert_ok(cancel_new_under(parent, &sibling, &err), &err);
    cancel_throw(child);
    assert_int_equal(cancel_sleep(child, deadline_in_s(30), &err), ERR_CANCELLED);
    assert_false(cancel_thrown(parent));
    assert_false(cancel_thrown(sibling));
    pthread_t t;
    pthread_create(&t, NULL, throw_soon, parent);
    assert_int_equal(cancel_sleep(sibling, deadline_in_s(30), &err), ERR_CANCELLED);
    pthread_join(t, NULL);
    cancel_free(child);
    cancel_free(sibling);
    cancel_free(parent);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_throw_from_another_thread_ends_a_sleep),
    cmocka_unit_test(a_switch_under_another_is_thrown_with_it_but_not_the_other_way),
    cmocka_unit_test(a_sleep_without_a_switch_ends_at_its_deadline),
};

RUN_TESTS(tests)
