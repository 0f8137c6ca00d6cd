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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_throw_from_another_thread_ends_a_sleep),
    cmocka_unit_test(a_sleep_without_a_switch_ends_at_its_deadline),
};

RUN_TESTS(tests)
