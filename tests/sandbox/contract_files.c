/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "tests/sandbox/contract.h"

static void bytes_come_back_as_they_went_in(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    AUTO_BUF struct buf in = {0};
    AUTO_BUF struct buf out = {0};
    for (unsigned i = 0; i < 3000000; i++) {
        assert_int_equal(buf_addc(&in, (char)(i * 7 + i / 251)), 0);
    }
    assert_ok(sandbox_write_file(s, "bytes.bin", buf_sv(&in), 0600, &err), &err);
    assert_ok(sandbox_read_file(s, "bytes.bin", 0, in.len + 100, &out, &err), &err);
    assert_true(sv_eq(buf_sv(&in), buf_sv(&out)));
    assert_string_equal(contract_says(s, "stat -c '%a %s' bytes.bin"), "600 3000000\n");
}

static void a_file_may_be_read_in_parts(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    assert_ok(sandbox_write_file(s, "parts.txt", SV("0123456789"), 0644, &err), &err);
    assert_ok(sandbox_read_file(s, "parts.txt", 2, 3, &out, &err), &err);
    assert_ok(sandbox_read_file(s, "parts.txt", 8, 100, &out, &err), &err);
    assert_ok(sandbox_read_file(s, "parts.txt", 10, 100, &out, &err), &err);
    assert_ok(sandbox_read_file(s, "parts.txt", 5000, 100, &out, &err), &err);
    assert_ok(sandbox_read_file(s, "parts.txt", 0, 0, &out, &err), &err);
    assert_string_equal(buf_cstr(&out), "23489");
}

static void writing_replaces_and_empty_is_a_file(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    assert_ok(sandbox_write_file(s, "twice.txt", SV("a long first text"), 0644, &err), &err);
    assert_ok(sandbox_write_file(s, "twice.txt", SV("second"), 0755, &err), &err);
    assert_ok(sandbox_read_file(s, "twice.txt", 0, 100, &out, &err), &err);
    assert_string_equal(buf_cstr(&out), "second");
    assert_string_equal(contract_says(s, "stat -c %a twice.txt"), "755\n");
    assert_ok(sandbox_write_file(s, "empty.txt", SV(""), 0644, &err), &err);
    assert_int_equal(sandbox_exists(s, "empty.txt", &err), 1);
    assert_int_equal(sandbox_exists(s, "empty.txt/below", &err), 0);
}

static void a_path_without_parents_makes_no_folder(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    assert_ok(sandbox_write_file(s, "one", SV("1"), 0644, &err), &err);
    assert_ok(sandbox_write_file(s, "./two", SV("2"), 0644, &err), &err);
    assert_string_equal(contract_says(s, "find . | sort"), ".\n./one\n./two\n");
    contract_end(s);
}

static void the_parents_of_a_path_are_made(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    assert_ok(sandbox_write_file(s, "a/b/c.txt", SV("deep"), 0644, &err), &err);
    AUTO_FREE char *path = mem_printf("%s/d/e.txt", sandbox_home(s));
    assert_ok(sandbox_write_file(s, path, SV("absolute"), 0644, &err), &err);
    assert_string_equal(contract_says(s, "find . -type f | sort"), "./a/b/c.txt\n./d/e.txt\n");
    contract_end(s);
}

static void a_write_that_fails_leaves_what_was_there(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    contract_says(s,
                  "mkdir folder; echo old >locked; mkdir -p shut; echo old >shut/file; chmod 500 "
                  "shut");
    assert_true(sandbox_write_file(s, "folder", SV("new"), 0644, &err) < 0);
    assert_true(sandbox_write_file(s, "locked/below", SV("new"), 0644, &err) < 0);
    assert_true(sandbox_write_file(s, "/proc/no/such", SV("new"), 0644, &err) < 0);
    assert_string_equal(contract_says(s, "cat locked; find folder shut -mindepth 1"),
                        "old\nshut/file\n");
    contract_says(s, "chmod 700 shut");
    contract_end(s);
}

static void what_is_not_there_is_not_found(void **state) {
    (void)state;
    struct sandbox *s = contract_shared();
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    assert_err(sandbox_read_file(s, "nowhere", 0, 10, &out, &err), ERR_NOT_FOUND, &err, "nowhere");
    assert_err(sandbox_read_file(s, "no/where", 0, 10, &out, &err), ERR_NOT_FOUND, &err,
               "no/where");
    assert_int_equal(sandbox_exists(s, "nowhere", &err), 0);
    assert_int_equal(sandbox_exists(s, "no/where", &err), 0);
    assert_int_equal(sandbox_exists(s, ".", &err), 1);
    assert_int_equal(sandbox_exists(s, "/usr/bin", &err), 1);
    assert_err(sandbox_read_file(s, "", 0, 10, &out, &err), ERR_INPUT, &err, "empty");
}

static void only_regular_files_are_read(void **state) {
    (void)state;
    struct sandbox *s = contract_make(NULL);
    struct err err = {0};
    AUTO_BUF struct buf out = {0};
    contract_says(s, "echo text >file; ln -s file link; ln -s /dev/zero zero; mkfifo pipe; mkdir "
                     "folder; ln -s nowhere dangling");
    static const char *const paths[] = {"link", "zero", "pipe", "folder", "/dev/zero", "dangling"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_err(sandbox_read_file(s, paths[i], 0, 10, &out, &err), ERR_INPUT, &err, paths[i]);
    }
    assert_int_equal(out.len, 0);
    contract_end(s);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(bytes_come_back_as_they_went_in),
    cmocka_unit_test(a_file_may_be_read_in_parts),
    cmocka_unit_test(writing_replaces_and_empty_is_a_file),
    cmocka_unit_test(a_path_without_parents_makes_no_folder),
    cmocka_unit_test(the_parents_of_a_path_are_made),
    cmocka_unit_test(a_write_that_fails_leaves_what_was_there),
    cmocka_unit_test(what_is_not_there_is_not_found),
    cmocka_unit_test(only_regular_files_are_read),
};
const struct contract_cases contract_files = {cases, ARRAY_LEN(cases)};
