/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/dockerfile.h"

#include "base/mem.h"
#include "tests/testing.h"

#define TEXT                                                                                       \
    SV("# of BASE\nARG BASE=one:1\nFROM ${BASE}\nARG NAME=x\nARG NAME_MORE=y\nRUN ARG BASE=z")

static void a_default_is_read_by_the_whole_name(void **state) {
    (void)state;
    assert_true(sv_eq(dockerfile_arg(TEXT, "BASE"), SV("one:1")));
    assert_true(sv_eq(dockerfile_arg(TEXT, "NAME"), SV("x")));
    assert_true(sv_eq(dockerfile_arg(TEXT, "NAME_MORE"), SV("y")));
    assert_int_equal(dockerfile_arg(TEXT, "NAM").n, 0);
    assert_int_equal(dockerfile_arg(SV("ARG BASE"), "BASE").n, 0);
}

static void a_default_changes_and_all_else_stays(void **state) {
    (void)state;
    AUTO_BUF struct buf out = {0};
    const struct dockerfile_value values[] = {{"BASE", "two"}, {"NAME", NULL}, {"NONE", "n"}};
    assert_int_equal(dockerfile_fill(TEXT, values, ARRAY_LEN(values), &out), 0);
    assert_string_equal(buf_cstr(&out), "# of BASE\nARG BASE=two\nFROM ${BASE}\nARG NAME=x\n"
                                        "ARG NAME_MORE=y\nRUN ARG BASE=z");
}

static void a_base_is_an_image_s_name(void **state) {
    (void)state;
    static const char *const good[] = {"debian", "a.b:5000/c/d_e:1.0-x", "x@sha256:0123"};
    static const char *const bad[] = {"", "a b", "a\nRUN b", "-a", "$A", "a#", "\xc3\xa4"};
    struct err err = {0};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_ok(dockerfile_check_base(good[i], &err), &err);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(dockerfile_check_base(bad[i], &err), ERR_USAGE, &err, "is no image's name");
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_default_is_read_by_the_whole_name),
        cmocka_unit_test(a_default_changes_and_all_else_stays),
        cmocka_unit_test(a_base_is_an_image_s_name),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
