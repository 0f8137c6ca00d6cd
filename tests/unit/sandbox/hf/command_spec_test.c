/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "guest/parcel.h"
#include "guest/protocol.h"
#include "sandbox/hf/command.h"
#include "tests/testing.h"

static struct hf sandbox = {.home = (char *)(uintptr_t) "/h"};

static void spec_of(const struct sandbox_exec *what, bool is_job, struct buf *out) {
    struct err err = {0};
    struct hf_command c = {.sandbox = &sandbox, .folder = mem_strdup("/d/1"), .user = 5};
    assert_ok(hf_command_spec(&c, what, is_job, DEADLINE_NEVER, &err), &err);
    assert_ok(parcel_read(buf_sv(&c.parcel), out, &err), &err);
    free(c.folder);
    buf_deinit(&c.parcel);
}

static void assert_field(const struct buf *spec, uint8_t tag, const char *want) {
    struct sv value = {0};
    if (protocol_find(buf_sv(spec), tag, &value) != (want != NULL) ||
        !sv_eq(value, sv_from(want))) {
        fail_msg("field %d: want '%s', got '%.*s'", tag, want ? want : "none", SV_ARG(value));
    }
}

static void an_exec_has_a_time_out_and_leaves_its_output_in_its_folder(void **state) {
    (void)state;
    AUTO_BUF struct buf spec = {0};
    spec_of(&(struct sandbox_exec){.shell = "x", .input = SV("typed")}, false, &spec);
    assert_int_equal(protocol_u64(buf_sv(&spec), PROTOCOL_TIMEOUT_MS, 0), 60000);
    assert_int_equal(protocol_u64(buf_sv(&spec), PROTOCOL_USER, 0), 5);
    assert_field(&spec, PROTOCOL_SHELL, "x");
    assert_field(&spec, PROTOCOL_CWD, "/h");
    assert_field(&spec, PROTOCOL_ENV, "HOME=/h");
    assert_field(&spec, PROTOCOL_STDOUT_PATH, "/d/1/out");
    assert_field(&spec, PROTOCOL_STDERR_PATH, "/d/1/err");
    assert_field(&spec, PROTOCOL_BYTES, "typed");
}

/* An agent works for longer than an exec may. */
static void a_job_has_no_time_out_of_its_own_and_writes_where_it_is_told(void **state) {
    (void)state;
    AUTO_BUF struct buf spec = {0};
    const char *const argv[] = {"a", "b", NULL};
    spec_of(&(struct sandbox_exec){.argv = argv, .stdout_path = "log", .timeout_s = 0}, true,
            &spec);
    assert_int_equal(protocol_u64(buf_sv(&spec), PROTOCOL_TIMEOUT_MS, 9), 0);
    assert_field(&spec, PROTOCOL_STDOUT_PATH, "/h/log");
    assert_field(&spec, PROTOCOL_STDERR_PATH, NULL);
    assert_field(&spec, PROTOCOL_BYTES, NULL);
    buf_reset(&spec);
    spec_of(&(struct sandbox_exec){.argv = argv, .timeout_s = 1.5}, true, &spec);
    assert_int_equal(protocol_u64(buf_sv(&spec), PROTOCOL_TIMEOUT_MS, 9), 1500);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(an_exec_has_a_time_out_and_leaves_its_output_in_its_folder),
    cmocka_unit_test(a_job_has_no_time_out_of_its_own_and_writes_where_it_is_told),
};

RUN_TESTS(tests)
