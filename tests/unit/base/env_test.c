/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/env.h"

#include <unistd.h>

#include "base/file.h"
#include "tests/testing.h"

static void the_real_environment_wins_over_the_file(void **state) {
    (void)state;
    struct err err = {0};
    char path[] = "/tmp/snaffle-env-test.XXXXXX";
    close(mkstemp(path));
    setenv("SNAFFLE_T_REAL", "real", 1);
    assert_ok(file_write(path,
                         SV("# c\nSNAFFLE_T_REAL=file\nexport SNAFFLE_T_A = 'x y' \n"
                            "SNAFFLE_T_B=\"q\"\r\nSNAFFLE_T_C=v # note\nSNAFFLE_T_D=\n"),
                         0600, &err),
              &err);
    assert_ok(env_load_dotenv(path, &err), &err);
    assert_string_equal(env_get("SNAFFLE_T_REAL"), "real");
    assert_string_equal(env_get("SNAFFLE_T_A"), "x y");
    assert_string_equal(env_get("SNAFFLE_T_B"), "q");
    assert_string_equal(env_get("SNAFFLE_T_C"), "v");
    assert_null(env_get("SNAFFLE_T_D"));
    assert_ok(file_write(path, SV("A=1\nnonsense\n"), 0600, &err), &err);
    assert_err(env_load_dotenv(path, &err), ERR_INPUT, &err, "line 2");
    unlink(path);
    assert_ok(env_load_dotenv(path, &err), &err);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_real_environment_wins_over_the_file),
};

RUN_TESTS(tests)
