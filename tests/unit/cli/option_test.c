/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include "base/mem.h"
#include "cli/option.h"

static const char *const colours[] = {"red", "green", NULL};
static const struct command paint = {
    .name = "paint",
    .operands = "WALL",
    .operands_min = 1,
    .operands_max = 1,
    .options =
        (const struct option[]){
            {"colour", OPTION_WORD, "COLOUR", "which", colours},
            {"coats", OPTION_COUNT, "N", "how many", NULL},
            {"hours", OPTION_NUMBER, "N", "how long", NULL},
            {"note", OPTION_TEXT, "TEXT", "what else", NULL},
            {"fast", OPTION_SWITCH, NULL, "hurry", NULL},
            {0},
        },
};

/* Parses up to six words, NULL-ended. */
static int parse(struct args *a, struct err *err, const char *const *words) {
    char *argv[8] = {0};
    size_t n = 0;
    for (; words[n]; n++) {
        argv[n] = (char *)words[n];
    }
    return args_parse(&paint, n, argv, a, err);
}
#define PARSE(a, err, ...) parse(a, err, (const char *const[]){__VA_ARGS__, NULL})

static void values_stand_beside_their_option_or_after_an_equals_sign(void **state) {
    struct args a = {0};
    struct err err = {0};
    (void)state;
    assert_ok(PARSE(&a, &err, "--colour=red", "--coats", "3", "north", "--fast"), &err);
    assert_string_equal(args_text(&a, "colour"), "red");
    assert_int_equal(args_count(&a, "coats", 1), 3);
    assert_true(args_has(&a, "fast"));
    assert_false(args_has(&a, "note"));
    assert_null(args_text(&a, "note"));
    assert_true(args_number(&a, "hours", 1.5) > 1.4);
    assert_string_equal(a.operands[0], "north");
    args_deinit(&a);
}

static void the_last_of_a_repeated_option_counts_and_all_are_kept(void **state) {
    struct args a = {0};
    struct err err = {0};
    (void)state;
    assert_ok(PARSE(&a, &err, "--note", "a", "--note", "b", "w"), &err);
    assert_string_equal(args_text(&a, "note"), "b");
    assert_int_equal(a.n_uses, 2);
    args_deinit(&a);
}

static void after_two_dashes_all_is_operand(void **state) {
    struct args a = {0};
    struct err err = {0};
    (void)state;
    assert_ok(PARSE(&a, &err, "--", "--fast"), &err);
    assert_string_equal(a.operands[0], "--fast");
    assert_false(args_has(&a, "fast"));
    args_deinit(&a);
}

static void help_needs_no_operands(void **state) {
    struct args a = {0};
    struct err err = {0};
    (void)state;
    assert_ok(PARSE(&a, &err, "-h"), &err);
    assert_true(args_has(&a, "help"));
    args_deinit(&a);
}

static void what_is_wrong_is_named_with_the_remedy(void **state) {
    static const struct {
        const char *words[4];
        const char *told;
    } rows[] = {
        {{"--color", "red", "w"}, "unknown option '--color' (did you mean '--colour'?)"},
        {{"--zzzzzz", "w"}, "unknown option '--zzzzzz' (see 'snaffle paint --help')"},
        {{"-x", "w"}, "unknown option '-x'"},
        {{"--colour", "blue", "w"}, "--colour: 'blue' is none of: red, green"},
        {{"--coats", "-1", "w"}, "--coats: want a whole number, got '-1'"},
        {{"--coats=2x", "w"}, "--coats: want a whole number, got '2x'"},
        {{"--coats=99999999999999999999", "w"}, "--coats: want a whole number"},
        {{"--hours", "nan", "w"}, "--hours: want a number of 0 or more, got 'nan'"},
        {{"--hours=", "w"}, "--hours: want a number of 0 or more, got ''"},
        {{"--note=", "w"}, "--note: want TEXT, got nothing"},
        {{"w", "--note"}, "--note: want TEXT, got nothing"},
        {{"--fast=1", "w"}, "--fast takes no value"},
        {{"--fast"}, "want WALL, got nothing"},
        {{"w", "v"}, "'v' is one word too many"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct args a = {0};
        struct err err = {0};
        assert_err(parse(&a, &err, rows[i].words), ERR_USAGE, &err, rows[i].told);
        assert_null(a.uses);
    }
}

static void another_programs_words_are_left_alone(void **state) {
    struct args a = {0};
    struct err err = {0};
    struct command c = paint;
    (void)state;
    c.operands_max = 9;
    c.runs_a_command = true;
    char *words[] = {(char *)"--fast", (char *)"w",  (char *)"--", (char *)"ls",
                     (char *)"--fast", (char *)"--", (char *)"-x"};
    assert_ok(args_parse(&c, 7, words, &a, &err), &err);
    assert_int_equal(a.n_uses, 1);
    assert_int_equal(a.n_operands, 5);
    assert_string_equal(a.operands[1], "ls");
    assert_string_equal(a.operands[3], "--");
    args_deinit(&a);
    assert_ok(args_parse(&c, 2, words + 3, &a, &err), &err); /* Without the dashes. */
    assert_int_equal(a.n_uses, 0);
    assert_string_equal(a.operands[1], "--fast");
    args_deinit(&a);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values_stand_beside_their_option_or_after_an_equals_sign),
    cmocka_unit_test(the_last_of_a_repeated_option_counts_and_all_are_kept),
    cmocka_unit_test(after_two_dashes_all_is_operand),
    cmocka_unit_test(another_programs_words_are_left_alone),
    cmocka_unit_test(help_needs_no_operands),
    cmocka_unit_test(what_is_wrong_is_named_with_the_remedy),
};

RUN_TESTS(tests)
