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

static void
another_way_is_taken_once_silence_is_confirmed_and_the_better_one_tried_again(void **state) {
    struct known k;
    int64_t now = 1000;
    (void)state;
    known_init(&k, ENGINE_UNKNOWN);
    for (unsigned i = 0; i < KNOWN_SILENT_MAX; i++) {
        assert_int_equal(known_withdrawn(&k, M, true, false, now), 0);
        known_note_ids(&k, M, true, false, ASK_IDS, /* came= */ false, now);
    }
    assert_int_equal(known_withdrawn(&k, M, true, false, now), ASK_IDS);
    assert_int_equal(known_withdrawn(&k, M, false, false, now), 0);
    for (int64_t ms = KNOWN_SILENT_MS; ms < KNOWN_MS; ms *= 2) { /* In vain: after twice as long. */
        assert_int_equal(known_withdrawn(&k, M, true, false, now + ms - 1), ASK_IDS);
        /* A call that was under way, and the other way, which gives some: they say nothing new. */
        known_note_ids(&k, M, true, false, ASK_IDS, false, now + ms - 1);
        known_note_ids(&k, M, true, false, ASK_ID_STRINGS, true, now + ms - 1);
        now += ms;
        assert_int_equal(known_withdrawn(&k, M, true, false, now), 0);
        known_note_ids(&k, M, true, false, ASK_IDS, false, now);
    }
    assert_int_equal(known_withdrawn(&k, M, true, false, now + KNOWN_MS - 1), ASK_IDS);
    now += KNOWN_MS;
    known_note_ids(&k, M, true, false, ASK_IDS, true, now); /* It gives them: all is forgotten. */
    known_note_ids(&k, M, true, false, ASK_IDS, false, now);
    assert_int_equal(known_withdrawn(&k, M, true, false, now), 0);
    known_deinit(&k);
}

static void one_answer_without_ids_among_others_changes_nothing(void **state) {
    struct known k;
    (void)state;
    known_init(&k, ENGINE_UNKNOWN);
    for (unsigned i = 0; i < 4 * KNOWN_SILENT_MAX; i++) {
        known_note_ids(&k, M, false, false, ASK_IDS, i % KNOWN_SILENT_MAX == 0, i);
        assert_int_equal(known_withdrawn(&k, M, false, false, i), 0);
    }
    known_withdraw(&k, M, false, false, ASK_USAGE, 100);
    assert_int_equal(known_withdrawn(&k, M, false, false, 100), ASK_USAGE);
    known_deinit(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_refused_is_known_by_model_stream_and_tools_for_an_hour),
        cmocka_unit_test(the_oldest_is_forgotten_when_there_are_too_many),
        cmocka_unit_test(
            another_way_is_taken_once_silence_is_confirmed_and_the_better_one_tried_again),
        cmocka_unit_test(one_answer_without_ids_among_others_changes_nothing),
        cmocka_unit_test(another_engine_makes_what_was_known_void_and_a_configured_one_stays),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
