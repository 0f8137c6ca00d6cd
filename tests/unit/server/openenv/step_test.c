/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/step.h"

#include "base/json.h"
#include "tests/testing.h"

static json_t *parse(const char *text) {
    json_t *value = NULL;
    struct err err = {0};
    assert_ok(json_parse(sv_from(text), "test", &value, &err), &err);
    return value;
}

/* The faults as "type:place" in their order. */
static void expect_faults(struct faults *f, const char *want) {
    AUTO_BUF struct buf got = {0};
    AUTO_JSON json_t *list = faults_take(f);
    size_t i;
    json_t *fault;
    json_array_foreach(list, i, fault) {
        const json_t *loc = json_object_get(fault, "loc");
        assert_true(json_is_string(json_object_get(fault, "msg")));
        assert_non_null(json_object_get(fault, "input"));
        assert_int_equal(buf_addf(&got, "%s:", json_string_value(json_object_get(fault, "type"))),
                         0);
        for (size_t n = 0; n < json_array_size(loc); n++) {
            assert_int_equal(
                buf_addf(&got, "%s%s", n ? "." : "", json_string_value(json_array_get(loc, n))), 0);
        }
        assert_int_equal(buf_addc(&got, ' '), 0);
    }
    assert_string_equal(buf_cstr(&got), want);
}

static void expect_action(const char *text, const char *want) {
    AUTO_JSON json_t *data = parse(text);
    struct faults f = {0};
    struct action a = {0};
    action_read(data, &f, &a);
    expect_faults(&f, want);
}

static void an_action_lists_the_tools_or_calls_one(void **state) {
    (void)state;
    struct faults f = {0};
    struct action a = {0};
    AUTO_JSON json_t *list = parse("{\"type\":\"list_tools\",\"metadata\":{}}");
    AUTO_JSON json_t *call = parse("{\"tool_name\":\"t\",\"arguments\":{\"a\":1}}");
    action_read(list, &f, &a);
    assert_true(a.lists);
    action_read(call, &f, &a);
    assert_false(a.lists);
    assert_true(sv_eq(a.tool, SV("t")));
    assert_int_equal(json_object_size(a.arguments), 1);
    assert_false(faults_any(&f));
}

static void each_fault_of_an_action_is_named_with_its_place(void **state) {
    (void)state;
    expect_action("{}", "missing:tool_name ");
    expect_action("{\"type\":\"dance\"}", "literal_error:type missing:tool_name ");
    expect_action("{\"type\":7,\"tool_name\":\"t\"}", "literal_error:type ");
    expect_action("{\"tool_name\":1}", "string_type:tool_name ");
    expect_action("{\"tool_name\":\"t\",\"arguments\":[]}", "dict_type:arguments ");
    expect_action("{\"tool_name\":\"t\",\"arguments\":null}", "dict_type:arguments ");
    expect_action("{\"tool_name\":\"t\",\"metadata\":3,\"more\":1}",
                  "extra_forbidden:more dict_type:metadata ");
    expect_action("{\"type\":\"list_tools\",\"tool_name\":\"t\"}", "extra_forbidden:tool_name ");
}

static void expect_reset(const char *text, const char *want) {
    AUTO_JSON json_t *kwargs = parse(text);
    struct faults f = {.under = {"body"}};
    const char *id = NULL;
    faults_of_reset(&f, kwargs, &id);
    expect_faults(&f, want);
}

static void seed_and_episode_have_their_bounds(void **state) {
    (void)state;
    char long_id[512];
    expect_reset("{\"seed\":0,\"episode_id\":\"e\",\"else\":[]}", "");
    expect_reset("{\"seed\":null,\"episode_id\":null}", "");
    expect_reset("{\"seed\":-1}", "greater_than_equal:body.seed ");
    expect_reset("{\"seed\":\"x\",\"episode_id\":1}",
                 "int_type:body.seed string_type:body.episode_id ");
    snprintf(long_id, sizeof long_id, "{\"episode_id\":\"%0255d\"}", 7);
    expect_reset(long_id, "");
    snprintf(long_id, sizeof long_id, "{\"episode_id\":\"%0256d\"}", 7);
    expect_reset(long_id, "string_too_long:body.episode_id ");
}

static void a_step_s_time_limit_is_a_number_above_0(void **state) {
    (void)state;
    AUTO_JSON json_t *good = parse("{\"timeout_s\":1.5}");
    AUTO_JSON json_t *bad = parse("{\"timeout_s\":0}");
    AUTO_JSON json_t *worse = parse("{\"timeout_s\":\"1\",\"request_id\":{}}");
    struct faults f = {0};
    double seconds = 0;
    faults_of_step(&f, good, &seconds);
    assert_true(seconds > 1.4 && seconds < 1.6);
    faults_of_step(&f, bad, &seconds);
    faults_of_step(&f, worse, &seconds);
    expect_faults(&f, "greater_than:timeout_s float_type:timeout_s string_type:request_id ");
}

static void a_rollout_moves_the_state_and_a_reset_begins_anew(void **state) {
    (void)state;
    struct environment e = {0};
    assert_int_equal(environment_reset(&e, SV("mine")), 0);
    e.step_count++;
    environment_note(&e, &(struct tool_result){.outcome = TOOL_FAILED});
    environment_note(&e, &(struct tool_result){.outcome = TOOL_DONE,
                                               .task_id = "t",
                                               .sandbox_id = "s",
                                               .has_reward = true,
                                               .reward = 0.5});
    AUTO_JSON json_t *got = environment_state(&e);
    AUTO_JSON json_t *want =
        parse("{\"episode_id\":\"mine\",\"step_count\":1,\"rollouts_completed\":1,"
              "\"last_reward\":0.5,\"last_task_id\":\"t\",\"last_sandbox_id\":\"s\"}");
    assert_true(json_equal(got, want));
    assert_int_equal(environment_reset(&e, (struct sv){0}), 0);
    AUTO_JSON json_t *fresh = environment_state(&e);
    assert_int_equal(strlen(e.episode_id), 36);
    assert_int_equal(json_integer_value(json_object_get(fresh, "step_count")), 0);
    assert_true(json_is_null(json_object_get(fresh, "last_reward")));
    environment_deinit(&e);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_action_lists_the_tools_or_calls_one),
    cmocka_unit_test(each_fault_of_an_action_is_named_with_its_place),
    cmocka_unit_test(seed_and_episode_have_their_bounds),
    cmocka_unit_test(a_step_s_time_limit_is_a_number_above_0),
    cmocka_unit_test(a_rollout_moves_the_state_and_a_reset_begins_anew),
};

RUN_TESTS(tests)
