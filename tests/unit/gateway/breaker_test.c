/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/breaker.h"

#include "tests/testing.h"

static bool is_open(const struct breaker *b, struct sv body, int64_t now_ms) {
    const struct breaker_key key = breaker_key_of(b, body);
    return breaker_is_open(b, &key, now_ms);
}

static void note(struct breaker *b, struct sv body, bool failed, int64_t now_ms) {
    const struct breaker_key key = breaker_key_of(b, body);
    breaker_note(b, &key, failed, now_ms);
}

static void one_body_that_fails_too_often_is_stopped_for_a_while(void **state) {
    struct breaker b = {.failures_max = 2, .within_ms = 1000};
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_false(is_open(&b, SV("a"), 100));
        note(&b, SV("a"), true, 100 + i);
    }
    assert_true(is_open(&b, SV("a"), 1100));
    assert_false(is_open(&b, SV("b"), 1100));
    assert_false(is_open(&b, SV("a"), 1101));
    note(&b, SV("a"), true, 1102); /* Counting begins anew. */
    assert_false(is_open(&b, SV("a"), 1102));
}

static void an_answer_forgets_the_failures(void **state) {
    struct breaker b = {.failures_max = 1, .within_ms = 1000};
    (void)state;
    note(&b, SV("a"), true, 0);
    note(&b, SV("a"), false, 1);
    note(&b, SV("a"), true, 2);
    assert_false(is_open(&b, SV("a"), 3));
    note(&b, SV("a"), true, 3);
    assert_true(is_open(&b, SV("a"), 3));
}

static void a_breaker_of_zero_never_breaks(void **state) {
    struct breaker b = {0};
    (void)state;
    for (int i = 0; i < 100; i++) {
        note(&b, SV("a"), true, 0);
    }
    assert_false(is_open(&b, SV("a"), 0));
}

static void the_oldest_body_makes_room(void **state) {
    struct breaker b = {.failures_max = 1, .within_ms = 100000};
    (void)state;
    for (char name = 0; name < (char)BREAKER_BODIES_MAX + 1; name++) {
        note(&b, (struct sv){&name, 1}, true, name);
        note(&b, (struct sv){&name, 1}, true, name);
    }
    char last = (char)BREAKER_BODIES_MAX;
    assert_false(is_open(&b, (struct sv){"", 1}, 50));
    assert_true(is_open(&b, (struct sv){&last, 1}, 50));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_body_that_fails_too_often_is_stopped_for_a_while),
        cmocka_unit_test(an_answer_forgets_the_failures),
        cmocka_unit_test(a_breaker_of_zero_never_breaks),
        cmocka_unit_test(the_oldest_body_makes_room),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
