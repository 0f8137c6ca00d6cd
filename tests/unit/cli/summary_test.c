/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/summary.h"

static char *printed(const char *result, const char *dir) {
    struct err err = {0};
    AUTO_JSON json_t *value = NULL;
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    assert_ok(json_parse(sv_from(result), "test", &value, &err), &err);
    assert_ok(summary_print(value, dir, stream, &err), &err);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void a_good_rollout_is_told_in_five_lines(void **state) {
    (void)state;
    AUTO_FREE char *text =
        printed("{\"status\":\"ok\",\"cause\":null,\"error\":null,\"reward\":1.0,\"wall_s\":7.25,"
                "\"verify_results\":[{\"exit_code\":0},{\"exit_code\":0}],"
                "\"phases\":{\"create\":0.04,\"agent\":6.5},"
                "\"proxy_turns\":[{\"turn\":1,\"completion_token_ids\":[1,2],"
                "\"per_token_logps\":[-0.25,-0.75]},{\"turn\":2,\"completion_token_ids\":[3],"
                "\"per_token_logps\":[-2]}]}",
                "runs/r/x");
    assert_string_equal(text, "status      ok\n"
                              "reward      1.00 (2 of 2 checks passed)\n"
                              "turns       2, 3 completion tokens, mean log-probability -1.000\n"
                              "time        7.2 s (create 0.04, agent 6.50)\n"
                              "folder      runs/r/x\n");
}

static void a_failed_rollout_names_its_cause_and_no_reward(void **state) {
    (void)state;
    AUTO_FREE char *text = printed("{\"status\":\"failed\",\"cause\":\"setup_failed\","
                                   "\"error\":\"exit 1:\\u001b[2J\",\"reward\":null}",
                                   NULL);
    assert_string_equal(text, "status      failed, setup_failed: exit 1:\\x1b[2J\n"
                              "reward      none\n"
                              "turns       0, 0 completion tokens, mean log-probability -\n"
                              "time        0.0 s\n");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_good_rollout_is_told_in_five_lines),
    cmocka_unit_test(a_failed_rollout_names_its_cause_and_no_reward),
};

RUN_TESTS(tests)
