/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/show.h"

static char *printed(const char *line) {
    struct err err = {0};
    AUTO_JSON json_t *value = NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    assert_ok(json_parse(sv_from(line), "test", &value, &err), &err);
    assert_ok(show_turn(value, stream, &err), &err);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void a_turn_shows_its_words_its_calls_and_its_tokens(void **state) {
    (void)state;
    AUTO_FREE char *text = printed(
        "{\"turn\":1,\"role\":\"agent\",\"finish_reason\":\"tool_calls\",\"latency_s\":0.5,"
        "\"prompt_token_ids\":[7,8],\"completion_token_ids\":[12,345],\"completion_tokens\":"
        "[\"H\\\"i\",\"\\n\"],\"per_token_logps\":[0,-0.6931],\"findings\":[\"a_code\"],"
        "\"response\":{\"choices\":[{\"message\":{\"reasoning_content\":\"think\",\"content\":"
        "\"one\\ntwo\",\"tool_calls\":[{\"function\":{\"name\":\"write\",\"arguments\":"
        "\"{\\\"path\\\":\\\"x\\\"}\"}}]}}]}}");
    assert_string_equal(text,
                        "turn 1: agent, tool_calls, 2 prompt tokens, 2 completion tokens, mean "
                        "log-probability -0.347, 500 ms\n"
                        "\nfindings\n  unknown  a_code\n"
                        "\nreasoning\n  think\n"
                        "\ntext\n  one\n  two\n"
                        "\ntool calls\n  write {\"path\":\"x\"}\n"
                        "\ntokens\n"
                        "#   ID     LOGP       P  TOKEN\n"
                        "1   12   0.0000  100.0%  \"H\\\"i\"\n"
                        "2  345  -0.6931   50.0%  \"\\n\"\n");
}

static void an_aborted_turn_shows_what_is_known(void **state) {
    (void)state;
    AUTO_FREE char *text = printed("{\"turn\":3,\"role\":\"agent\",\"finish_reason\":null,"
                                   "\"end\":\"client_abort\",\"latency_s\":1,\"response\":null}");
    assert_string_equal(text, "turn 3: agent, client_abort, 0 prompt tokens, 0 completion tokens, "
                              "mean log-probability -, 1.00 s\n");
}

static void each_finding_says_how_grave_it_is_what_it_means_and_what_to_do(void **state) {
    (void)state;
    AUTO_FREE char *text =
        printed("{\"turn\":2,\"role\":\"agent\",\"trainable\":false,\"finish_reason\":\"stop\","
                "\"latency_s\":1,\"findings\":[\"no_choices\",\"empty_completion\",\"subagent\"]}");
    assert_string_equal(
        text, "turn 2: agent, not trainable, stop, 0 prompt tokens, 0 completion tokens, mean "
              "log-probability -, 1.00 s\n"
              "\nfindings\n"
              "  fatal    no_choices\n"
              "           the engine answered without an error, but with no choice\n"
              "           -> look at the engine's own log\n"
              "  warning  empty_completion\n"
              "           no text, no reasoning, no tool call\n"
              "  info     subagent\n"
              "           a call of an agent that the agent started\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_finding_says_how_grave_it_is_what_it_means_and_what_to_do),
    cmocka_unit_test(a_turn_shows_its_words_its_calls_and_its_tokens),
    cmocka_unit_test(an_aborted_turn_shows_what_is_known),
};

RUN_TESTS(tests)
