/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/rewrite.h"

#include "journal/splices.h"
#include "tests/testing.h"

struct row {
    const char *agent;
    const char *sent; /* NULL: as it is. */
    struct rewrite_options o;
    enum engine engine;
};

static void check(const struct row *row) {
    struct request r;
    struct rewrite w = {0};
    struct err e = {0};
    struct sv agent = sv_from(row->agent);
    assert_ok(request_parse(&r, agent, &e), &e);
    struct rewrite_options o = row->o;
    o.profile = profile_of(row->engine);
    assert_ok(rewrite_request(&w, &r, &o, &e), &e);
    struct sv got = w.n_edits > 0 ? buf_sv(&w.text) : agent;
    struct sv want = row->sent ? sv_from(row->sent) : agent;
    if (!sv_eq(got, want)) {
        fail_msg("of:   %s\nwant: %.*s\ngot:  %.*s", row->agent, SV_ARG(want), SV_ARG(got));
    }
    assert_int_equal(w.n_edits > 0, row->sent != NULL);
    AUTO_BUF struct buf splices = {0};
    AUTO_BUF struct buf rebuilt = {0};
    assert_int_equal(rewrite_put_splices(&w, agent, &splices), 0);
    assert_int_equal(splices_apply(agent, buf_sv(&splices), &rebuilt), 0);
    assert_string_equal(buf_cstr(&rebuilt), buf_cstr(&w.text)[0] ? buf_cstr(&w.text) : row->agent);
    rewrite_deinit(&w);
}

#define TOKENS                                                                                     \
    { .level = LEVEL_TOKENS, .top_logprobs = 5 }
#define LOGPROBS                                                                                   \
    { .level = LEVEL_LOGPROBS, .top_logprobs = 5 }
#define OF(...)                                                                                    \
    { .level = LEVEL_TEXT, __VA_ARGS__ }

static void capture_fields_are_added_behind_what_is_there(void **state) {
    static const struct row rows[] = {
        {"{}", "{\"logprobs\":true,\"top_logprobs\":5,\"return_token_ids\":true}", TOKENS},
        {"{\"z\":1.50,\n \"a\":\"\\u00e9\" }\n",
         "{\"z\":1.50,\n \"a\":\"\\u00e9\",\"logprobs\":true,\"top_logprobs\":5,"
         "\"return_token_ids\":true }\n",
         TOKENS},
        {"{\"a\":1}", "{\"a\":1,\"logprobs\":true,\"top_logprobs\":5}", LOGPROBS},
        {"{\"a\":1}", NULL, OF(.top_logprobs = 5)},
        /* Null counts as absent. */
        {"{\"logprobs\":null,\"top_logprobs\":null,\"return_token_ids\":null}",
         "{\"logprobs\":true,\"top_logprobs\":5,\"return_token_ids\":true}", TOKENS},
        /* What the agent asks for stays, but for a false. */
        {"{\"logprobs\":true,\"top_logprobs\":2,\"return_token_ids\":true}", NULL, TOKENS},
        {"{\"top_logprobs\":0,\"logprobs\": false}", "{\"top_logprobs\":0,\"logprobs\": true}",
         LOGPROBS},
        {"{\"log\\u0070robs\":true,\"top_logprobs\":1}", NULL, LOGPROBS},
        /* The last of equal keys counts. */
        {"{\"logprobs\":true,\"logprobs\":false,\"top_logprobs\":1}",
         "{\"logprobs\":true,\"logprobs\":true,\"top_logprobs\":1}", LOGPROBS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&rows[i]);
    }
}

static void usage_is_asked_for_in_streams_only(void **state) {
    static const struct row rows[] = {
        {"{\"logprobs\":true,\"top_logprobs\":1,\"stream\":true}",
         "{\"logprobs\":true,\"top_logprobs\":1,\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true}}",
         LOGPROBS},
        {"{\"logprobs\":true,\"top_logprobs\":1,\"stream\":false}", NULL, LOGPROBS},
        {"{\"logprobs\":true,\"top_logprobs\":1,\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true}}",
         NULL, LOGPROBS},
        {"{\"logprobs\":true,\"top_logprobs\":1,\"stream\":true,\"stream_options\":null}",
         "{\"logprobs\":true,\"top_logprobs\":1,\"stream\":true,"
         "\"stream_options\":{\"include_usage\":true}}",
         LOGPROBS},
        {"{\"logprobs\":true,\"top_logprobs\":1,\"stream_options\":{ \"x\":1 },\"stream\":true}",
         "{\"logprobs\":true,\"top_logprobs\":1,\"stream_options\":{ \"x\":1,"
         "\"include_usage\":true },\"stream\":true}",
         LOGPROBS},
        {"{\"logprobs\":true,\"top_logprobs\":1,\"stream_options\":{},\"stream\":true}",
         "{\"logprobs\":true,\"top_logprobs\":1,\"stream_options\":{\"include_usage\":true},"
         "\"stream\":true}",
         LOGPROBS},
        {"{\"logprobs\":true,\"top_logprobs\":1,\"stream_options\":{\"include_usage\":false},"
         "\"stream\":true}",
         "{\"logprobs\":true,\"top_logprobs\":1,\"stream_options\":{\"include_usage\":true},"
         "\"stream\":true}",
         LOGPROBS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&rows[i]);
    }
}

static void max_tokens_is_clamped_and_named_as_its_model_takes_it(void **state) {
    static const struct row rows[] = {
        {"{\"max_tokens\":100}", "{\"max_tokens\":50}", OF(.max_tokens_cap = 50)},
        {"{\"max_tokens\":50}", NULL, OF(.max_tokens_cap = 50)},
        {"{\"max_tokens\":99999999999999999999999}", "{\"max_tokens\":50}",
         OF(.max_tokens_cap = 50)},
        {"{\"max_tokens\":1e3}", NULL, OF(.max_tokens_cap = 50)},
        {"{\"max_tokens\":-1}", NULL, OF(.max_tokens_cap = 50)},
        {"{\"max_tokens\":null}", NULL, OF(.max_tokens_cap = 50)},
        {"{\"max_completion_tokens\": 64,\"max_tokens\":70}",
         "{\"max_completion_tokens\": 50,\"max_tokens\":50}", OF(.max_tokens_cap = 50)},
        {"{\"model\":\"gpt-5-mini\",\"max_tokens\" : 100,\"x\":1}",
         "{\"model\":\"gpt-5-mini\",\"max_completion_tokens\":100,\"x\":1}", OF(), ENGINE_OPENAI},
        {"{\"model\":\"openai/O3\",\"max_tokens\":100}",
         "{\"model\":\"openai/O3\",\"max_completion_tokens\":50}", OF(.max_tokens_cap = 50)},
        {"{\"model\":\"o1\",\"max_tokens\":100,\"max_completion_tokens\":7}",
         "{\"model\":\"o1\",\"max_completion_tokens\":7}", OF()},
        {"{\"max_tokens\":100, \"max_completion_tokens\":7,\"model\":\"o4-mini\"}",
         "{\"max_completion_tokens\":7,\"model\":\"o4-mini\"}", OF()},
        {"{\"model\":\"gpt-4.1\",\"max_tokens\":100}", NULL, OF(), ENGINE_OPENAI},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&rows[i]);
    }
}

static void thinking_is_switched_off_where_nothing_is_said(void **state) {
    static const struct row rows[] = {
        {"{\"a\":1}", "{\"a\":1,\"chat_template_kwargs\":{\"enable_thinking\":false}}",
         OF(.disable_thinking = true)},
        {"{\"chat_template_kwargs\":null}",
         "{\"chat_template_kwargs\":{\"enable_thinking\":false}}", OF(.disable_thinking = true)},
        {"{\"chat_template_kwargs\":{\"x\":1}}",
         "{\"chat_template_kwargs\":{\"x\":1,\"enable_thinking\":false}}",
         OF(.disable_thinking = true)},
        {"{\"chat_template_kwargs\":{}}", "{\"chat_template_kwargs\":{\"enable_thinking\":false}}",
         OF(.disable_thinking = true)},
        {"{\"chat_template_kwargs\":{\"enable_thinking\":true}}", NULL,
         OF(.disable_thinking = true)},
        {"{\"chat_template_kwargs\":5}", NULL, OF(.disable_thinking = true)},
        {"{\"a\":1}", NULL, OF()},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&rows[i]);
    }
}

static void sampling_is_made_neutral_where_ids_are_captured(void **state) {
#define ALL_SET "\"logprobs\":true,\"top_logprobs\":5,\"return_token_ids\":true"
    static const struct row rows[] = {
        {"{" ALL_SET "}",
         "{" ALL_SET ",\"top_p\":1,\"top_k\":-1,\"min_p\":0,\"presence_penalty\":0,"
         "\"frequency_penalty\":0,\"repetition_penalty\":1}",
         {.level = LEVEL_TOKENS, .top_logprobs = 5, .neutral_sampling = true}},
        {"{" ALL_SET ",\"temperature\":0.7,\"top_p\":0.95,\"top_k\":null,\"min_p\":0.0,"
         "\"presence_penalty\":1.5,\"frequency_penalty\":-0,\"repetition_penalty\":1e0}",
         "{" ALL_SET ",\"temperature\":0.7,\"top_p\":1,\"top_k\":-1,\"min_p\":0.0,"
         "\"presence_penalty\":0,\"frequency_penalty\":-0,\"repetition_penalty\":1e0}",
         {.level = LEVEL_TOKENS, .top_logprobs = 5, .neutral_sampling = true}},
        {"{\"logprobs\":true,\"top_logprobs\":5,\"top_p\":0.95}",
         NULL,
         {.level = LEVEL_LOGPROBS, .top_logprobs = 5, .neutral_sampling = true}},
        {"{" ALL_SET ",\"top_p\":0.95}", NULL, {.level = LEVEL_TOKENS, .top_logprobs = 5}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&rows[i]);
    }
}

static void the_model_is_overridden(void **state) {
    static const struct row rows[] = {
        {"{\"model\":\"m\"}", "{\"model\":\"a \\\"b\\\"\"}", OF(.model_override = "a \"b\"")},
        {"{\"x\":1}", "{\"x\":1,\"model\":\"m\"}", OF(.model_override = "m")},
        {"{\"model\":null}", "{\"model\":\"m\"}", OF(.model_override = "m")},
        {"{\"model\":\"m\"}", NULL, OF(.model_override = "m")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&rows[i]);
    }
}

static void each_edit_is_recorded(void **state) {
    struct request r;
    struct rewrite w = {0};
    struct err e = {0};
    AUTO_BUF struct buf edits = {0};
    AUTO_BUF struct buf sampling = {0};
    const struct rewrite_options o = {.profile = profile_of(ENGINE_UNKNOWN),
                                      .level = LEVEL_LOGPROBS,
                                      .top_logprobs = 5,
                                      .max_tokens_cap = 8,
                                      .model_override = "o3"};
    (void)state;
    assert_ok(request_parse(&r,
                            SV("{\"model\":\"m\",\"max_tokens\":10,\"logprobs\":false,"
                               "\"temperature\":0.70,\"stop\":[\"a\"]}"),
                            &e),
              &e);
    assert_ok(rewrite_request(&w, &r, &o, &e), &e);
    assert_int_equal(rewrite_put_edits(&w, &edits), 0);
    assert_string_equal(
        buf_cstr(&edits),
        "{\"field\":\"logprobs\",\"action\":\"changed\",\"from\":false,\"to\":true},"
        "{\"field\":\"top_logprobs\",\"action\":\"set\",\"to\":5},"
        "{\"field\":\"model\",\"action\":\"changed\",\"from\":\"m\",\"to\":\"o3\"},"
        "{\"field\":\"max_tokens\",\"action\":\"dropped\",\"from\":10},"
        "{\"field\":\"max_completion_tokens\",\"action\":\"set\",\"to\":8}");
    assert_int_equal(request_put_sampling(&r, &sampling), 0);
    assert_string_equal(buf_cstr(&sampling),
                        "{\"temperature\":0.70,\"stop\":[\"a\"],\"max_tokens\":10}");
    assert_int_equal(w.ours, ASK_LOGPROBS | ASK_ALTERNATIVES);
    rewrite_deinit(&w);
}

#define R(engine_, withdrawn_, ...)                                                                \
    {                                                                                              \
        __VA_ARGS__, {.level = LEVEL_TOKENS, .top_logprobs = 7, .withdrawn = (withdrawn_)},        \
            ENGINE_##engine_                                                                       \
    }
#define STREAM(more) "{\"stream\":true,\"stream_options\":{\"include_usage\":true}" more "}"
#define TOOLS ",\"tools\":[{}]"
#define ROWS ",\"logprobs\":true,\"top_logprobs\":7"

static void every_engine_is_asked_in_its_own_words(void **state) {
    static const struct row rows[] = {
        R(VLLM, 0, STREAM(TOOLS), STREAM(TOOLS ROWS ",\"return_token_ids\":true")),
        R(VLLM, ASK_IDS, STREAM(), STREAM(ROWS ",\"return_tokens_as_token_ids\":true")),
        R(VLLM, ASK_IDS | ASK_ID_STRINGS, STREAM(), STREAM(ROWS)),
        R(VLLM, ASK_LOGPROBS, STREAM(), NULL),
        R(VLLM, ASK_ALTERNATIVES, STREAM(), STREAM(",\"logprobs\":true,\"return_token_ids\":true")),
        /* The agent reads these rows itself: their texts must stay. */
        R(VLLM, ASK_IDS, STREAM(ROWS), NULL),
        R(SGLANG, 0, STREAM(),
          STREAM(ROWS ",\"return_input_ids_in_sglext\":true,"
                      "\"return_output_ids_in_sglext\":true")),
        R(SGLANG, ASK_IDS_AT_END, STREAM(), STREAM(ROWS)),
        R(SGLANG, ASK_IDS_AT_END, "{\"a\":1}", "{\"a\":1" ROWS ",\"return_token_ids\":true}"),
        R(LLAMA_CPP, 0, STREAM(), STREAM(ROWS)),
        R(LLAMA_CPP, 0, "{\"tools\":[{}]}", "{\"tools\":[{}]" ROWS "}"),
        R(LLAMA_CPP, 0, STREAM(TOOLS), STREAM(TOOLS ",\"n_probs\":7")),
        R(LLAMA_CPP, ASK_PROBABILITIES, STREAM(TOOLS), NULL),
        /* It gives alternatives that nobody asked for; another number would show. */
        R(LLAMA_CPP, 0, STREAM(",\"logprobs\":true"), NULL),
        R(OPENAI, 0, "{\"a\":1}", "{\"a\":1" ROWS "}"),
        R(OPENAI, ASK_LOGPROBS, "{\"a\":1}", NULL),
        R(ROUTER, 0, "{\"a\":1}",
          "{\"a\":1,\"logprobs\":true,\"top_logprobs\":5,\"return_token_ids\":true}"),
        R(TOGETHER, 0, STREAM(), STREAM(",\"logprobs\":7")),
        R(TOGETHER, 0, "{\"logprobs\":1}", NULL),
        R(TOGETHER, ASK_COUNT, "{\"a\":1}", NULL),
        R(UNKNOWN, ASK_USAGE, "{\"stream\":true" ROWS ",\"return_token_ids\":true}", NULL),
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(&rows[i]);
    }
}

static void a_refusal_names_fields_by_whole_words(void **state) {
    static const struct {
        const char *text;
        unsigned named;
    } rows[] = {
        {"Unrecognized request argument supplied: return_token_ids", ASK_IDS},
        {"{\"loc\":[\"body\",\"top_logprobs\"]}", ASK_ALTERNATIVES},
        {"`logprobs` and top_logprobs", ASK_LOGPROBS | ASK_ALTERNATIVES},
        {"logprobs", ASK_LOGPROBS},
        {"max_logprobs, logprobs_mode, return_token_ids_", 0},
        {"stream_options are not supported", ASK_USAGE},
        {"max_tokens is too large", 0}, /* Changed, but not for the capture. */
        {"this model's context is 4096 tokens", 0},
        {"", 0},
    };
    struct request r;
    struct rewrite w = {0};
    struct err e = {0};
    const struct rewrite_options o = {
        .profile = profile_of(ENGINE_UNKNOWN), .level = LEVEL_TOKENS, .max_tokens_cap = 1};
    (void)state;
    assert_ok(request_parse(&r, SV("{\"stream\":true,\"max_tokens\":9}"), &e), &e);
    assert_ok(rewrite_request(&w, &r, &o, &e), &e);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(rewrite_named(&w, sv_from(rows[i].text)), rows[i].named);
    }
    rewrite_deinit(&w);
}

static void what_is_no_object_is_refused(void **state) {
    static const char *const bad[] = {"", "[]", "1", "{\"a\":1", "{\"a\":1}x", "{'a':1}", "null"};
    struct request r;
    struct err e = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_err(request_parse(&r, sv_from(bad[i]), &e), ERR_INPUT, &e, "invalid json body");
    }
}

static void what_the_agent_asks_for_is_known(void **state) {
    struct request r;
    struct err e = {0};
    (void)state;
    assert_ok(request_parse(&r,
                            SV("{\"n\":3,\"stream\":true,\"tools\":[{}],\"logprobs\":true,"
                               "\"return_token_ids\":true,\"stream_options\":"
                               "{\"include_usage\":true}}"),
                            &e),
              &e);
    assert_true(request_is_stream(&r) && request_has_tools(&r) && request_asks_logprobs(&r) &&
                request_asks_token_ids(&r) && request_asks_usage(&r));
    assert_int_equal(request_n(&r), 3);
    assert_ok(request_parse(&r, SV("{\"n\":0,\"tools\":[],\"stream\":\"true\"}"), &e), &e);
    assert_false(request_is_stream(&r) || request_has_tools(&r) || request_asks_usage(&r));
    assert_int_equal(request_n(&r), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capture_fields_are_added_behind_what_is_there),
        cmocka_unit_test(usage_is_asked_for_in_streams_only),
        cmocka_unit_test(max_tokens_is_clamped_and_named_as_its_model_takes_it),
        cmocka_unit_test(thinking_is_switched_off_where_nothing_is_said),
        cmocka_unit_test(sampling_is_made_neutral_where_ids_are_captured),
        cmocka_unit_test(the_model_is_overridden),
        cmocka_unit_test(each_edit_is_recorded),
        cmocka_unit_test(every_engine_is_asked_in_its_own_words),
        cmocka_unit_test(a_refusal_names_fields_by_whole_words),
        cmocka_unit_test(what_is_no_object_is_refused),
        cmocka_unit_test(what_the_agent_asks_for_is_known),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
