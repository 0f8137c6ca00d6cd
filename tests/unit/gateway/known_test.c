/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/known.h"

#include <stdio.h>

#include "tests/testing.h"

#define M SV("\"m\"")

static void what_was_refused_is_known_by_model_stream_and_tools_for_an_hour(void **state) {
    struct known k;
    (void)state;
    known_init(&k, ENGINE_UNKNOWN);
    known_withdraw(&k, M, true, false, ASK_IDS, 1000);
    known_withdraw(&k, M, true, false, ASK_USAGE, 1000);
    assert_int_equal(known_withdrawn(&k, M, true, false, 1000), ASK_IDS | ASK_USAGE);
    assert_int_equal(known_withdrawn(&k, M, false, false, 1000), 0);
    assert_int_equal(known_withdrawn(&k, M, true, true, 1000), 0);
    assert_int_equal(known_withdrawn(&k, SV("\"n\""), true, false, 1000), 0);
    assert_int_equal(known_withdrawn(&k, M, true, false, 1000 + KNOWN_MS - 1), ASK_IDS | ASK_USAGE);
    assert_int_equal(known_withdrawn(&k, M, true, false, 1000 + KNOWN_MS), 0);
    known_withdraw(&k, M, true, false, ASK_LOGPROBS, 1000 + KNOWN_MS); /* The old is over. */
    assert_int_equal(known_withdrawn(&k, M, true, false, 1000 + KNOWN_MS), ASK_LOGPROBS);
    known_deinit(&k);
}

static void the_oldest_is_forgotten_when_there_are_too_many(void **state) {
    struct known k;
    char name[16];
    (void)state;
    known_init(&k, ENGINE_UNKNOWN);
    for (int i = 0; i <= (int)KNOWN_MAX; i++) {
        (void)snprintf(name, sizeof name, "\"%d\"", i);
        known_withdraw(&k, sv_from(name), false, false, ASK_IDS, i);
    }
    assert_int_equal(known_withdrawn(&k, SV("\"0\""), false, false, 100), 0);
    assert_int_equal(known_withdrawn(&k, SV("\"1\""), false, false, 100), ASK_IDS);
    known_deinit(&k);
}

static void another_engine_makes_what_was_known_void_and_a_configured_one_stays(void **state) {
    struct known k;
    (void)state;
    known_init(&k, ENGINE_UNKNOWN);
    known_withdraw(&k, M, false, false, ASK_IDS, 1);
    known_learn_engine(&k, ENGINE_VLLM); /* It is the same engine, now by name. */
    known_learn_engine(&k, ENGINE_UNKNOWN);
    assert_int_equal(known_profile(&k)->engine, ENGINE_VLLM);
    assert_int_equal(known_withdrawn(&k, M, false, false, 1), ASK_IDS);
    known_learn_engine(&k, ENGINE_SGLANG);
    assert_int_equal(known_withdrawn(&k, M, false, false, 1), 0);
    known_deinit(&k);
    known_init(&k, engine_at(SV("api.openai.com")));
    known_learn_engine(&k, ENGINE_VLLM);
    assert_int_equal(known_profile(&k)->engine, ENGINE_OPENAI);
    known_deinit(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_refused_is_known_by_model_stream_and_tools_for_an_hour),
        cmocka_unit_test(the_oldest_is_forgotten_when_there_are_too_many),
        cmocka_unit_test(another_engine_makes_what_was_known_void_and_a_configured_one_stays),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
