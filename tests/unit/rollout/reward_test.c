/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/reward.h"

#include "tests/testing.h"

static void one_finite_number_is_a_reward(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double want;
    } cases[] = {{"1", 1},        {"0.5\n", 0.5},  {" -2.25 \r\n", -2.25},
                 {"1e-3", 0.001}, {"+0.75", 0.75}, {".5", 0.5},
                 {"3.", 3},       {"0", 0},        {"\n\n0.25\n", 0.25}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        double got = 99;
        assert_ok(reward_parse(sv_from(cases[i].text), &got, &err), &err);
        assert_true(got == cases[i].want);
    }
}

static void anything_else_is_refused_and_leaves_the_output_alone(void **state) {
    (void)state;
    static const char *const cases[] = {
        "",
        " \n",
        "nan",
        "inf",
        "-Infinity",
        "1e999",
        "0x10",
        "1 2",
        "1\n2",
        "1.0.0",
        "one",
        "1,5",
        "1e",
        "--1",
        "1_000",
        "e5",
        ".",
        "1 # comment",
        "0.000000000000000000000000000000000000000000000000000000000000001",
        "{\"reward\": 1}"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct err err = {0};
        double got = 99;
        assert_err(reward_parse(sv_from(cases[i]), &got, &err), ERR_INPUT, &err, "reward.txt");
        assert_true(got == 99);
    }
}

static void a_nul_does_not_hide_what_follows_it(void **state) {
    (void)state;
    struct err err = {0};
    double got = 99;
    assert_err(reward_parse(SV("1\0garbage"), &got, &err), ERR_INPUT, &err, "one finite number");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_finite_number_is_a_reward),
    cmocka_unit_test(anything_else_is_refused_and_leaves_the_output_alone),
    cmocka_unit_test(a_nul_does_not_hide_what_follows_it),
};

RUN_TESTS(tests)
