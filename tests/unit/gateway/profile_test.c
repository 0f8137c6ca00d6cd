/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/profile.h"

#include "tests/testing.h"

static void every_profile_ends_plain_and_is_found_by_its_name(void **state) {
    (void)state;
    for (size_t i = 0; profile_names[i]; i++) {
        const struct profile *p = profile_named(profile_names[i]);
        assert_non_null(p);
        assert_ptr_equal(p, profile_of(p->engine));
        const struct profile_rung *r =
            profile_rung(p, LEVEL_TOKENS, true, true, (unsigned)ASK_EVERYTHING);
        assert_int_equal(r->level, LEVEL_TEXT);
        assert_int_equal(profile_asks(r), 0);
    }
    assert_null(profile_named("unknown"));
    assert_null(profile_named(""));
}

static void engines_are_told_by_host_and_server_field(void **state) {
    (void)state;
    assert_int_equal(engine_at(SV("api.openai.com")), ENGINE_OPENAI);
    assert_int_equal(engine_at(SV("my.openai.azure.com")), ENGINE_OPENAI);
    assert_int_equal(engine_at(SV("router.huggingface.co")), ENGINE_ROUTER);
    assert_int_equal(engine_at(SV("api.together.xyz")), ENGINE_TOGETHER);
    assert_int_equal(engine_at(SV("xapi.openai.com")), ENGINE_UNKNOWN);
    assert_int_equal(engine_from_server(SV("llama.cpp")), ENGINE_LLAMA_CPP);
    assert_int_equal(engine_from_server(SV("uvicorn")), ENGINE_UNKNOWN);
    assert_int_equal(engine_from_server(SV("")), ENGINE_UNKNOWN);
}

static void a_lower_level_never_asks_for_ids(void **state) {
    (void)state;
    for (unsigned e = 0; e < ENGINES; e++) {
        for (unsigned i = 0; i < 4; i++) {
            const struct profile *p = profile_of((enum engine)e);
            const struct profile_rung *r = profile_rung(p, LEVEL_LOGPROBS, i & 1, i & 2, 0);
            assert_int_equal(profile_asks(r) & ASK_ANY_IDS, 0);
            assert_int_equal(r->level, LEVEL_LOGPROBS);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_ends_plain_and_is_found_by_its_name),
        cmocka_unit_test(engines_are_told_by_host_and_server_field),
        cmocka_unit_test(a_lower_level_never_asks_for_ids),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
