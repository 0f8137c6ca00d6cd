/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/sampling.h"

#include "base/json.h"
#include "tests/testing.h"

#define NEUTRAL "\"temperature\":1,\"top_p\":1,\"top_k\":-1"

static bool ask(bool (*what)(const json_t *), const char *fields) {
    AUTO_BUF struct buf text = {0};
    assert_int_equal(buf_addf(&text, "{%s}", fields), 0);
    AUTO_JSON json_t *request = json_loads(buf_cstr(&text), 0, NULL);
    assert_non_null(request);
    return what(request);
}

static void neutral_is_only_what_is_said_outright(void **state) {
    (void)state;
    static const char *const neutral[] = {
        NEUTRAL,
        "\"temperature\":1.0,\"top_p\":1,\"top_k\":0,\"min_p\":0,\"logit_bias\":{}",
        NEUTRAL ",\"seed\":7,\"stop\":[\"x\"],\"max_tokens\":9,\"logit_bias\":null",
        NEUTRAL ",\"repetition_penalty\":1.0,\"ignore_eos\":false,\"bad_words\":[]",
    };
    static const char *const not_said[] = {
        "",
        "\"temperature\":1,\"top_p\":1",
        "\"temperature\":1,\"top_k\":-1",
        "\"top_p\":1,\"top_k\":-1",
        "\"temperature\":null,\"top_p\":1,\"top_k\":-1",
        "\"temperature\":\"1\",\"top_p\":1,\"top_k\":0",
        "\"temperature\":0.7,\"top_p\":1,\"top_k\":-1",
    };
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
        assert_true(ask(sampling_is_neutral, neutral[i]));
        assert_false(ask(sampling_is_biased, neutral[i]));
    }
    for (size_t i = 0; i < sizeof not_said / sizeof *not_said; i++) {
        assert_false(ask(sampling_is_neutral, not_said[i]));
        assert_false(ask(sampling_is_biased, not_said[i]));
    }
    assert_false(sampling_is_neutral(NULL));
}

static void whatever_bends_the_distribution_is_a_bias(void **state) {
    (void)state;
    static const char *const biased[] = {
        "\"top_p\":0.95",
        "\"top_k\":40",
        "\"min_p\":0.05",
        "\"typical_p\":0.9",
        "\"top_a\":0.1",
        "\"presence_penalty\":0.1",
        "\"frequency_penalty\":-1",
        "\"repetition_penalty\":1.1",
        "\"repeat_penalty\":1.1",
        "\"logit_bias\":{\"5\":1}",
        "\"min_tokens\":4",
        "\"ignore_eos\":true",
        "\"bad_words\":[\"x\"]",
        "\"xtc_probability\":0.5",
        "\"dry_multiplier\":1",
        "\"mirostat\":2",
        "\"dynatemp_range\":0.5",
        "\"thinking_token_budget\":9",
        "\"top_p\":\"0.9\"",
    };
    for (size_t i = 0; i < sizeof biased / sizeof *biased; i++) {
        AUTO_BUF struct buf all = {0};
        assert_true(ask(sampling_is_biased, biased[i]));
        assert_int_equal(buf_addf(&all, NEUTRAL ",%s", biased[i]), 0); /* The last counts. */
        assert_false(ask(sampling_is_neutral, buf_cstr(&all)));
    }
}

static void a_mask_over_the_tokens_is_told_from_a_bias(void **state) {
    (void)state;
    static const char *const constrained[] = {
        "\"response_format\":{\"type\":\"json_object\"}",
        "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}",
        "\"guided_json\":{\"type\":\"object\"}",
        "\"guided_regex\":\"a+\"",
        "\"guided_choice\":[\"a\"]",
        "\"guided_grammar\":\"root\"",
        "\"structured_outputs\":{\"choice\":[\"a\"]}",
        "\"grammar\":\"root ::= x\"",
        "\"json_schema\":{\"type\":\"object\"}",
        "\"regex\":\"a\"",
        "\"ebnf\":\"x\"",
        "\"allowed_token_ids\":[1]",
        "\"tool_choice\":\"required\"",
        "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
    };
    static const char *const free_ones[] = {
        "",
        "\"response_format\":{\"type\":\"text\"}",
        "\"response_format\":null",
        "\"tool_choice\":\"auto\"",
        "\"tool_choice\":\"none\"",
        "\"guided_json\":null,\"grammar\":\"\",\"allowed_token_ids\":[]",
    };
    for (size_t i = 0; i < sizeof constrained / sizeof *constrained; i++) {
        assert_true(ask(sampling_is_constrained, constrained[i]));
    }
    for (size_t i = 0; i < sizeof free_ones / sizeof *free_ones; i++) {
        assert_false(ask(sampling_is_constrained, free_ones[i]));
    }
}

static void taking_the_likeliest_is_no_draw(void **state) {
    (void)state;
    assert_true(ask(sampling_is_greedy, "\"temperature\":0"));
    assert_true(ask(sampling_is_greedy, "\"temperature\":0.0"));
    assert_true(ask(sampling_is_greedy, "\"use_beam_search\":true"));
    assert_false(ask(sampling_is_greedy, "\"temperature\":0.01"));
    assert_false(ask(sampling_is_greedy, ""));
}

static void every_field_that_counts_is_on_the_list(void **state) {
    (void)state;
    static const char *const some[] = {"temperature",    "top_p",          "xtc_probability",
                                       "logit_bias",     "structural_tag", "tool_choice",
                                       "use_beam_search"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        bool found = false;
        for (const char *const *f = sampling_fields; *f; f++) {
            found = found || strcmp(*f, some[i]) == 0;
        }
        assert_true(found);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(neutral_is_only_what_is_said_outright),
    cmocka_unit_test(whatever_bends_the_distribution_is_a_bias),
    cmocka_unit_test(a_mask_over_the_tokens_is_told_from_a_bias),
    cmocka_unit_test(taking_the_likeliest_is_no_draw),
    cmocka_unit_test(every_field_that_counts_is_on_the_list),
};

RUN_TESTS(tests)
