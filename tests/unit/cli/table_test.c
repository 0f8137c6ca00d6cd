/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/testing.h"

#include <locale.h>

#include "base/mem.h"
#include "cli/table.h"
#include "cli/text.h"

static const struct table_column columns[] = {
    {.title = "NAME", .may_cut = true}, {.title = "N", .right = true}, {.title = "END"}};

/* Prints into memory, as for a terminal of so many columns (0: no terminal). */
static char *printed(struct table *t, size_t width) {
    struct err err = {0};
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    assert_non_null(stream);
    assert_ok(table_print(t, stream, width, &err), &err);
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void columns_are_as_wide_as_their_widest_cell(void **state) {
    struct table t;
    (void)state;
    table_init(&t, columns, ARRAY_LEN(columns));
    table_add(&t, SV("a-long-name"));
    table_addf(&t, "%d", 7);
    table_add(&t, SV("x"));
    AUTO_FREE char *text = printed(&t, 0);
    assert_string_equal(text, "NAME         N  END\na-long-name  7  x\n");
    table_deinit(&t);
}

static void rows_are_cut_to_the_terminal(void **state) {
    struct table t;
    (void)state;
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    table_init(&t, columns, ARRAY_LEN(columns));
    table_add(&t, SV("\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2"));
    table_add(&t, SV("12"));
    table_add(&t, SV("end"));
    AUTO_FREE char *text = printed(&t, 18);
    assert_string_equal(text, "NAME        N  END\n"
                              "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe2\x80\xa6  12  "
                              "end\n");
    table_deinit(&t);
}

static void columns_that_may_not_be_cut_stay_whole(void **state) {
    struct table t;
    (void)state;
    table_init(&t, columns, ARRAY_LEN(columns));
    table_add(&t, SV("a-rather-long-name"));
    table_add(&t, SV("1"));
    table_add(&t, SV("whatever-it-takes"));
    AUTO_FREE char *text = printed(&t, 5);
    assert_non_null(strstr(text, "whatever-it-takes"));
    assert_non_null(strstr(text, "a-rathe\xe2\x80\xa6"));
    table_deinit(&t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
    cmocka_unit_test(rows_are_cut_to_the_terminal),
    cmocka_unit_test(columns_that_may_not_be_cut_stay_whole),
};

RUN_TESTS(tests)
