/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json_loose.h"

#include "base/json.h"
#include "base/mem.h"
#include "tests/testing.h"

static const char *const fields[] = {"a", "b", NULL};

static void reads_as(const char *text, const char *want) {
    AUTO_JSON json_t *json = json_loose(sv_from(text), fields);
    AUTO_FREE char *got = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    assert_string_equal(got ? got : "none", want);
}

static void half_pairs_are_replaced_and_whole_ones_stay(void **state) {
    (void)state;
    reads_as("{\"a\": \"x\\ud800y\"}", "{\"a\":\"x\\uFFFDy\"}");
    reads_as("{\"a\": [\"\\udc00\", \"\\ud83d\"]}", "{\"a\":[\"\\uFFFD\",\"\\uFFFD\"]}");
    reads_as("{\"a\": \"\\ud83d\\ude00\\ud83d\"}", "{\"a\":\"\\uD83D\\uDE00\\uFFFD\"}");
    reads_as("{\"a\": \"\\\\ud800 \\ud800\"}", "{\"a\":\"\\\\ud800 \\uFFFD\"}");
    reads_as("{\"a\": \"\\u0000\"}", "{\"a\":\"\\u0000\"}");
}

static void what_can_not_be_held_costs_only_its_field(void **state) {
    (void)state;
    reads_as("{\"a\": 1e999, \"b\": 1}", "{\"b\":1}");
    reads_as("{\"a\": 123456789012345678901234567890, \"b\": 1}", "{\"b\":1}");
    reads_as("{\"c\": \"\\ud800\", \"b\": 1}", "{\"b\":1}");
}

static void what_is_no_object_gives_nothing(void **state) {
    (void)state;
    reads_as("", "none");
    reads_as("{\"a\": ", "none");
    reads_as("{\"a\": \"\xff\"}", "none");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(half_pairs_are_replaced_and_whole_ones_stay),
    cmocka_unit_test(what_can_not_be_held_costs_only_its_field),
    cmocka_unit_test(what_is_no_object_gives_nothing),
};

RUN_TESTS(tests)
