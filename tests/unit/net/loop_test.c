/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/loop.h"

#include <pthread.h>

#include "tests/unit/net/net_testing.h"

static int order[100];
static int n_run;

static void note(void *arg) {
    order[n_run++] = (int)(intptr_t)arg;
}

static void posts_run_in_order_before_the_loop_is_freed(void **state) {
    (void)state;
    struct loop *l = test_loop();
    for (intptr_t i = 0; i < 100; i++) {
        loop_post(l, note, (void *)i);
    }
    loop_free(l);
    assert_int_equal(n_run, 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(order[i], i);
    }
}

struct counter {
    struct loop *l;
    int n;
};

static void count(void *arg) {
    struct counter *c = arg;
    c->n += loop_is_current(c->l);
}

static void *post_many(void *arg) {
    struct counter *c = arg;
    for (int i = 0; i < 1000; i++) {
        loop_post(c->l, count, c);
    }
    return NULL;
}

static void posts_of_several_threads_all_run_on_the_loops_thread(void **state) {
    (void)state;
    struct counter c = {.l = test_loop()};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &c), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_false(loop_is_current(c.l));
    loop_call(c.l, count, &c);
    assert_int_equal(c.n, 4001);
    loop_free(c.l);
}

struct ticks {
    struct loop *l;
    struct timer *timer;
    struct timer *never;
    int n;
};

static void on_tick(void *arg) {
    struct ticks *t = arg;
    if (++t->n < 3) {
        timer_start(t->timer, 1);
    } else {
        timer_free(t->timer);
        timer_free(t->never);
    }
}

static void on_never(void *arg) {
    (void)arg;
    abort();
}

static void start_ticks(void *arg) {
    struct ticks *t = arg;
    assert_int_equal(timer_new(t->l, on_tick, t, &t->timer, NULL), 0);
    assert_int_equal(timer_new(t->l, on_never, t, &t->never, NULL), 0);
    timer_start(t->timer, 60000);
    timer_start(t->timer, 1); /* Replaces. */
    timer_start(t->never, 1);
    timer_stop(t->never);
}

static bool ticked(void *arg) {
    return ((struct ticks *)arg)->n == 3;
}

static void a_timer_fires_once_a_start_and_may_free_itself(void **state) {
    (void)state;
    struct ticks t = {.l = test_loop()};
    loop_call(t.l, start_ticks, &t);
    assert_true(test_wait(t.l, ticked, &t));
    loop_free(t.l);
    assert_int_equal(t.n, 3);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(posts_run_in_order_before_the_loop_is_freed),
    cmocka_unit_test(posts_of_several_threads_all_run_on_the_loops_thread),
    cmocka_unit_test(a_timer_fires_once_a_start_and_may_free_itself),
};

RUN_TESTS(tests)
