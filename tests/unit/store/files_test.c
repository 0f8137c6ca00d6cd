/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/store/fixture.h"

static int put(struct sv name, struct sv content, struct err *err) {
    return store_put_file(store, "r1", "a", name, content, err);
}

static void a_file_lands_under_files_with_its_folders(void **state) {
    (void)state;
    struct err err = {0};
    begin("r1", "a");
    static const char *const good[] = {"a.py", "d/e/f.txt", ".hidden", "x y",
                                       "\xff", "-rf",       "a..b"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        AUTO_FREE char *path = mem_printf("files/%s", good[i]);
        assert_ok(put(sv_from(good[i]), SV("1\0002"), &err), &err);
        assert_true(there("r1", "a", path));
    }
    assert_ok(put(SV("a.py"), SV("again"), &err), &err);
    AUTO_FREE char *dir = store_rollout_path(store, "r1", "a");
    AUTO_FREE char *path = file_join(dir, "files/a.py");
    AUTO_BUF struct buf text = {0};
    assert_ok(file_read(path, 100, &text, &err), &err);
    assert_string_equal(buf_cstr(&text), "again");
}

static void a_hostile_name_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    begin("r1", "a");
    static const struct sv bad[] = {
        {"", 0},          {"/etc/passwd", 11},
        {"..", 2},        {"../x", 4},
        {"a/../../x", 9}, {"a/..", 4},
        {"./a", 3},       {"a//b", 4},
        {"a/", 2},        {"a\0b", 3},
        {"a\nb", 3},      {"\x1b[0m", 4},
        {"/", 1},         {".", 1},
        {"a/./b", 5},     {"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", 41},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_err(put(bad[i], SV("x"), &err), ERR_INPUT, &err, "a file from the sandbox");
    }
    char longest[1100];
    memset(longest, 'x', sizeof longest);
    assert_err(put((struct sv){longest, 256}, SV("x"), &err), ERR_INPUT, &err, "too long");
    assert_err(put((struct sv){longest, 1025}, SV("x"), &err), ERR_INPUT, &err, "too long");
    assert_ok(put((struct sv){longest, 255}, SV("x"), &err), &err);
}

static void no_link_is_followed(void **state) {
    (void)state;
    struct err err = {0};
    begin("r1", "a");
    assert_ok(put(SV("d/f"), SV("1"), &err), &err);
    AUTO_FREE char *dir = store_rollout_path(store, "r1", "a");
    AUTO_FREE char *folder_link = file_join(dir, "files/out");
    AUTO_FREE char *file_link = file_join(dir, "files/link");
    AUTO_FREE char *target = file_join(root, "target");
    assert_ok(file_write(target, SV("kept"), 0600, &err), &err);
    assert_int_equal(symlink(root, folder_link), 0);
    assert_int_equal(symlink(target, file_link), 0);
    assert_err(put(SV("out/x"), SV("1"), &err), ERR_INPUT, &err, "needs a folder where a file is");
    assert_ok(put(SV("link"), SV("mine"), &err), &err); /* Takes the link's place. */
    AUTO_BUF struct buf text = {0};
    assert_ok(file_read(target, 100, &text, &err), &err);
    assert_string_equal(buf_cstr(&text), "kept");
}

static void a_file_and_a_folder_do_not_mix(void **state) {
    (void)state;
    struct err err = {0};
    begin("r1", "a");
    assert_ok(put(SV("a"), SV("1"), &err), &err);
    assert_err(put(SV("a/b"), SV("1"), &err), ERR_INPUT, &err, "needs a folder where a file is");
    assert_ok(put(SV("d/f"), SV("1"), &err), &err);
    assert_err(put(SV("d"), SV("1"), &err), ERR_INPUT, &err, "is a folder already");
}

static void size_and_number_are_bounded(void **state) {
    (void)state;
    struct err err = {0};
    begin("r1", "a");
    assert_err(put(SV("big"), (struct sv){"", STORE_FILE_BYTES_MAX + 1}, &err), ERR_LIMIT, &err,
               "larger than 64 MiB");
    for (unsigned i = 0; i < STORE_FILES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", i);
        assert_ok(put(sv_from(name), SV(""), &err), &err);
    }
    assert_err(put(SV("more"), SV(""), &err), ERR_LIMIT, &err, "4096 files already");
    assert_ok(store_keep_attempt(store, "r1", "a", 1, &err), &err);
    assert_ok(put(SV("more"), SV(""), &err), &err);
}

static void a_rollout_that_is_not_there_gets_no_files(void **state) {
    (void)state;
    struct err err = {0};
    assert_err(put(SV("a"), SV(""), &err), ERR_NOT_FOUND, &err, "cannot open the folder");
}

static const struct CMUnitTest tests[] = {
    TEST(a_file_lands_under_files_with_its_folders),
    TEST(a_hostile_name_is_refused),
    TEST(no_link_is_followed),
    TEST(a_file_and_a_folder_do_not_mix),
    TEST(size_and_number_are_bounded),
    TEST(a_rollout_that_is_not_there_gets_no_files),
};

RUN_TESTS(tests)
