/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/guest_client.h"

#include "base/mem.h"
#include "tests/unit/guest/guest_fixture.h"

static void deinit(struct sandbox_output *o) {
    buf_deinit(&o->out);
    buf_deinit(&o->err);
}

static void a_command_gives_its_exit_code_and_both_streams(void **state) {
    GUEST_OR_SKIP(state);
    AUTO(deinit) struct sandbox_output o = {0};
    struct sandbox_exec what = {.shell = "echo out; echo err >&2; exit 3"};
    assert_ok(guest_exec(&f->client, &what, &o, &err), &err);
    assert_int_equal(o.exit_code, 3);
    assert_string_equal(buf_cstr(&o.out), "out\n");
    assert_string_equal(buf_cstr(&o.err), "err\n");
    assert_false(o.timed_out);
    assert_false(o.truncated);
    assert_int_equal(o.out_total, 4);
}

static const struct CMUnitTest tests[] = {
    guest_unit_test(a_command_gives_its_exit_code_and_both_streams),
};

RUN_GUEST_TESTS(tests)
