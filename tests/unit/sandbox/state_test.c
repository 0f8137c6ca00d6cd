/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/state.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/testing.h"

static char root[] = "/tmp/snaffle-state-test-XXXXXX";

/* A path in the test's own folder; valid until the next call. */
static const char *in_root(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void the_directory_is_made_so_that_all_may_pass_and_none_may_list(void **state) {
    (void)state;
    struct err err = {0};
    struct stat st;
    mode_t before = umask(077);
    setenv("SNAFFLE_STATE", in_root("made/deep/state"), 1);
    AUTO_FREE char *dir = NULL;
    int r = state_dir(&dir, &err);
    umask(before);
    assert_ok(r, &err);
    assert_string_equal(dir, in_root("made/deep/state"));
    static const char *const folders[] = {"made",
                                          "made/deep",
                                          "made/deep/state",
                                          "made/deep/state/guest",
                                          "made/deep/state/uids",
                                          "made/deep/state/sandboxes"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        assert_int_equal(stat(in_root(folders[i]), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0711);
    }
}

static void a_relative_directory_is_counted_from_where_we_stand(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *before = getcwd(NULL, 0);
    AUTO_FREE char *dir = NULL;
    assert_int_equal(chdir(root), 0);
    setenv("SNAFFLE_STATE", "relative", 1);
    int r = state_dir(&dir, &err);
    assert_int_equal(chdir(before), 0);
    assert_ok(r, &err);
    assert_string_equal(dir, in_root("relative"));
}

static void a_shut_folder_above_is_named_with_the_remedy(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip_because("only root's sandboxes run as another user");
    }
    struct err err = {0};
    AUTO_FREE char *dir = NULL;
    AUTO_FREE char *want = mem_printf("the folder '%s/shut' keeps", root);
    assert_int_equal(mkdir(in_root("shut"), 0700), 0);
    setenv("SNAFFLE_STATE", in_root("shut/state"), 1);
    assert_err(state_dir(&dir, &err), ERR_ENVIRONMENT, &err, want);
    assert_non_null(strstr(err.msg, "chmod o+x"));
    assert_non_null(strstr(err.msg, "SNAFFLE_STATE"));
    /* What is asked is the way through, not the way to look. */
    assert_int_equal(chmod(in_root("shut"), 0701), 0);
    assert_ok(state_dir(&dir, &err), &err);
}

static void a_directory_that_others_can_write_is_refused(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *dir = NULL;
    assert_int_equal(mkdir(in_root("open"), 0700), 0);
    assert_int_equal(chmod(in_root("open"), 0777), 0);
    setenv("SNAFFLE_STATE", in_root("open"), 1);
    assert_err(state_dir(&dir, &err), ERR_ENVIRONMENT, &err, "not yours alone");
    assert_ok(file_write(in_root("file"), SV("x"), 0644, &err), &err);
    setenv("SNAFFLE_STATE", in_root("file/below"), 1);
    assert_err(state_dir(&dir, &err), ERR_ENVIRONMENT, &err, "SNAFFLE_STATE");
}

static char *made_state(const char *name) {
    struct err err = {0};
    char *dir = NULL;
    setenv("SNAFFLE_STATE", in_root(name), 1);
    assert_ok(state_dir(&dir, &err), &err);
    return dir;
}

static void the_guest_is_copied_once_a_content_and_runs_for_all(void **state) {
    (void)state;
    struct err err = {0};
    struct stat st;
    AUTO_FREE char *dir = made_state("guests");
    AUTO_FREE char *one = NULL;
    AUTO_FREE char *again = NULL;
    AUTO_FREE char *other = NULL;
    assert_ok(file_write(in_root("guest"), SV("abc"), 0600, &err), &err);
    setenv("SNAFFLE_GUEST", in_root("guest"), 1);
    assert_ok(state_guest(dir, &one, &err), &err);
    assert_true(sv_ends_with(sv_from(one), SV("/guest/ba7816bf8f01cfea414140de5dae2223"
                                              "b00361a396177a9cb410ff61f20015ad")));
    assert_int_equal(stat(one, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    ino_t inode = st.st_ino;
    assert_ok(state_guest(dir, &again, &err), &err);
    assert_string_equal(one, again);
    assert_int_equal(stat(one, &st), 0);
    assert_int_equal(st.st_ino, inode);
    assert_ok(file_write(in_root("guest"), SV("abcd"), 0600, &err), &err);
    assert_ok(state_guest(dir, &other, &err), &err);
    assert_string_not_equal(one, other);
    setenv("SNAFFLE_GUEST", in_root("no-such-guest"), 1);
    AUTO_FREE char *none = NULL;
    assert_err(state_guest(dir, &none, &err), ERR_NOT_FOUND, &err, "no-such-guest");
    unsetenv("SNAFFLE_GUEST");
    assert_err(state_guest(dir, &none, &err), ERR_ENVIRONMENT, &err, "SNAFFLE_GUEST");
}

static void every_sandbox_of_root_has_a_uid_of_its_own(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *dir = made_state("uids");
    struct state_uid a = {.lock_fd = -1};
    struct state_uid b = {.lock_fd = -1};
    struct state_uid c = {.lock_fd = -1};
    assert_ok(state_uid_take(dir, "a", &a, &err), &err);
    assert_ok(state_uid_take(dir, "b", &b, &err), &err);
    if (geteuid() != 0) {
        assert_int_equal(a.uid, geteuid());
        assert_int_equal(b.uid, geteuid());
        return;
    }
    assert_true(a.uid >= STATE_UID_FIRST && a.uid - STATE_UID_FIRST < STATE_UID_COUNT);
    assert_int_not_equal(a.uid, b.uid);
    /* One whose sandbox still has files stays taken, though nobody holds its lock. */
    uid_t spent = a.uid;
    assert_int_equal(mkdir(in_root("uids/sandboxes/a"), 0711), 0);
    state_uid_release(&a, false);
    for (int i = 0; i < 3; i++) {
        assert_ok(state_uid_take(dir, "c", &c, &err), &err);
        assert_int_not_equal(c.uid, spent);
        assert_int_not_equal(c.uid, b.uid);
        state_uid_release(&c, true);
    }
    state_uid_release(&b, true);
}

static int begin(void **state) {
    (void)state;
    return mkdtemp(root) && chmod(root, 0711) == 0 ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    return file_remove_tree(root, NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_directory_is_made_so_that_all_may_pass_and_none_may_list),
    cmocka_unit_test(a_relative_directory_is_counted_from_where_we_stand),
    cmocka_unit_test(a_shut_folder_above_is_named_with_the_remedy),
    cmocka_unit_test(a_directory_that_others_can_write_is_refused),
    cmocka_unit_test(the_guest_is_copied_once_a_content_and_runs_for_all),
    cmocka_unit_test(every_sandbox_of_root_has_a_uid_of_its_own),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, begin, end);
}
