/* SPDX-License-Identifier: BSD-3-Clause */
#include "agent/opencode.h"
#include "base/json.h"
#include "tests/testing.h"

#define NO_PARENT ((struct sv){0})

static enum agent_call call_of(const char *body, struct sv parent) {
    struct err err = {0};
    AUTO_JSON json_t *request = NULL;
    assert_ok(json_parse(sv_from(body), "test", &request, &err), &err);
    return agent_opencode.classify(request, SV("ses_1"), parent);
}

#define TOOLS ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"bash\"}}]"
#define NOOP ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"_noop\"}}]"
#define MESSAGES(system, user)                                                                     \
    "\"messages\":[{\"role\":\"system\",\"content\":\"" system                                     \
    "\"},{\"role\":\"user\",\"content\":\"" user "\"}]"

static void a_call_with_tools_is_a_main_call(void **state) {
    (void)state;
    assert_int_equal(call_of("{" MESSAGES("You are opencode, a tool", "go") TOOLS "}", NO_PARENT),
                     AGENT_CALL_MAIN);
    assert_int_equal(call_of("{" MESSAGES("You are a title generator.", "go") TOOLS "}", NO_PARENT),
                     AGENT_CALL_MAIN);
}

static void a_main_call_may_have_no_tools(void **state) {
    (void)state;
    assert_int_equal(call_of("{" MESSAGES("Be terse.", "go") "}", NO_PARENT), AGENT_CALL_MAIN);
}

static void a_title_call_shows_in_either_message(void **state) {
    (void)state;
    const char *title =
        "{" MESSAGES("You are a title generator. You output ONLY a thread title.", "hello") "}";
    assert_int_equal(call_of(title, NO_PARENT), AGENT_CALL_TITLE);
    assert_int_equal(
        call_of("{" MESSAGES("Mine.", "Generate a title for this conversation:\\n") "}", NO_PARENT),
        AGENT_CALL_TITLE);
}

static void a_summary_call_is_told_by_its_system_prompt(void **state) {
    (void)state;
    assert_int_equal(
        call_of("{" MESSAGES("You are a context summarization agent. You are given", "x") "}",
                NO_PARENT),
        AGENT_CALL_SUMMARY);
    assert_int_equal(
        call_of("{" MESSAGES("You are a context summarization agent. You are given", "x") NOOP "}",
                SV("ses_0")),
        AGENT_CALL_SUMMARY);
}

static void a_parent_session_makes_a_sub_agent_s_call(void **state) {
    (void)state;
    assert_int_equal(call_of("{" MESSAGES("You are opencode", "go") TOOLS "}", SV("ses_0")),
                     AGENT_CALL_SUBAGENT);
}

static void content_in_parts_is_read(void **state) {
    (void)state;
    assert_int_equal(call_of("{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\","
                             "\"text\":\"You are a title generator.\"}]}]}",
                             NO_PARENT),
                     AGENT_CALL_TITLE);
}

static void odd_requests_are_main_calls(void **state) {
    (void)state;
    const char *bodies[] = {"{}",
                            "[]",
                            "{\"messages\":{}}",
                            "{\"messages\":[1,{}]}",
                            "{\"messages\":[{\"role\":1,\"content\":null}],\"tools\":[3]}",
                            "{\"messages\":[{\"role\":\"system\",\"content\":[]}]}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        assert_int_equal(call_of(bodies[i], NO_PARENT), AGENT_CALL_MAIN);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_call_with_tools_is_a_main_call),
    cmocka_unit_test(a_main_call_may_have_no_tools),
    cmocka_unit_test(a_title_call_shows_in_either_message),
    cmocka_unit_test(a_summary_call_is_told_by_its_system_prompt),
    cmocka_unit_test(a_parent_session_makes_a_sub_agent_s_call),
    cmocka_unit_test(content_in_parts_is_read),
    cmocka_unit_test(odd_requests_are_main_calls),
};

RUN_TESTS(tests)
