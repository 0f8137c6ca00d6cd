/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/testing.h"

static char root[] = "/tmp/snaffle-file-test.XXXXXX";

static int make_root(void **state) {
    (void)state;
    memcpy(root + strlen(root) - 6, "XXXXXX", 6);
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
    (void)state;
    return file_remove_tree(root, NULL);
}

static void a_written_file_reads_back_and_leaves_no_part(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *path = file_join(root, "a");
    assert_ok(file_write(path, SV("one"), 0600, &err), &err);
    assert_ok(file_write(path, SV("two"), 0600, &err), &err);
    AUTO_BUF struct buf b = {0};
    assert_ok(file_read(path, 3, &b, &err), &err);
    assert_string_equal(buf_cstr(&b), "two");
    assert_err(file_read(path, 2, &b, &err), ERR_LIMIT, &err, "larger than 2 bytes");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(root), 0);
    assert_int_equal(mkdir(root, 0700), 0);
}

static void a_fifo_is_not_waited_for(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *path = file_join(root, "fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    AUTO_BUF struct buf b = {0};
    assert_err(file_read(path, 3, &b, &err), ERR_INPUT, &err, "not a regular file");
}

static void removal_follows_no_link(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *tree = file_join(root, "tree");
    AUTO_FREE char *outside = file_join(root, "outside");
    AUTO_FREE char *kept = file_join(outside, "kept");
    AUTO_FREE char *link = file_join(tree, "link");
    assert_ok(file_mkdirs(tree, 0700, &err), &err);
    assert_ok(file_mkdirs(outside, 0700, &err), &err);
    assert_ok(file_write(kept, SV("x"), 0600, &err), &err);
    assert_int_equal(symlink(outside, link), 0);
    assert_ok(file_remove_tree(tree, &err), &err);
    assert_false(file_exists(tree));
    assert_true(file_exists(kept));
}

/* A path of this depth is longer than PATH_MAX, and a descriptor a level would run out. */
static void removal_of_a_very_deep_tree_needs_neither_stack_nor_descriptors(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *tree = file_join(root, "deep");
    assert_ok(file_mkdirs(tree, 0700, &err), &err);
    int fd = open(tree, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_ok(file_remove_tree(tree, &err), &err);
    assert_false(file_exists(tree));
}

static void removal_of_what_is_not_there_is_success(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *tree = file_join(root, "none");
    assert_ok(file_remove_tree(tree, &err), &err);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_written_file_reads_back_and_leaves_no_part, make_root,
                                    remove_root),
    cmocka_unit_test_setup_teardown(a_fifo_is_not_waited_for, make_root, remove_root),
    cmocka_unit_test_setup_teardown(removal_follows_no_link, make_root, remove_root),
    cmocka_unit_test_setup_teardown(removal_of_a_very_deep_tree_needs_neither_stack_nor_descriptors,
                                    make_root, remove_root),
    cmocka_unit_test_setup_teardown(removal_of_what_is_not_there_is_success, make_root,
                                    remove_root),
};

RUN_TESTS(tests)
