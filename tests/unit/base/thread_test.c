/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

#include "tests/testing.h"

struct seen {
    sigset_t mask;
    size_t stack_bytes;
};

static void *look(void *arg) {
    struct seen *s = arg;
    pthread_attr_t attr;
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstacksize(&attr, &s->stack_bytes);
        pthread_attr_destroy(&attr);
    }
    return s;
}

struct waiting {
    pthread_mutex_t *lock;
    pthread_cond_t changed;
    bool is_changed;
};

static void *change(void *arg) {
    struct waiting *w = arg;
    pthread_mutex_lock(w->lock);
    w->is_changed = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(w->lock);
    return NULL;
}

static void it_takes_no_signals_and_the_caller_still_does(void **state) {
    (void)state;
    static const int some[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ, SIGCHLD};
    struct seen seen = {0};
    pthread_t thread;
    void *out = NULL;
    sigset_t own;
    assert_int_equal(thread_start(&thread, 0, look, &seen), 0);
    assert_int_equal(pthread_join(thread, &out), 0);
    assert_ptr_equal(out, &seen);
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        assert_true(sigismember(&seen.mask, some[i]));
        assert_false(sigismember(&own, some[i]));
    }
}

static void its_stack_is_as_large_as_asked_and_too_small_a_one_is_refused(void **state) {
    (void)state;
    struct seen seen = {0};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, 1u << 20, look, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(seen.stack_bytes, (1u << 20) - 65536, (1u << 20) + 65536);
    assert_int_equal(thread_start(&thread, 1, look, &seen), EINVAL);
}

static void a_wait_ends_at_its_deadline_or_with_its_condition(void **state) {
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct waiting w = {.lock = &lock, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    deadline_ms soon = deadline_in_ms(15);
    pthread_mutex_lock(&lock);
    while (!deadline_passed(soon)) {
        thread_wait(&w.changed, &lock, soon);
    }
    assert_int_equal(thread_start(&thread, 0, change, &w), 0);
    deadline_ms patience = deadline_in_s(30);
    while (!w.is_changed) {
        thread_wait(&w.changed, &lock, patience);
        assert_false(deadline_passed(patience));
    }
    pthread_mutex_unlock(&lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(it_takes_no_signals_and_the_caller_still_does),
    cmocka_unit_test(its_stack_is_as_large_as_asked_and_too_small_a_one_is_refused),
    cmocka_unit_test(a_wait_ends_at_its_deadline_or_with_its_condition),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
