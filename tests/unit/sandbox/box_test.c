/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/box.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/box_scan.h"
#include "tests/testing.h"

static char root[] = "/tmp/snaffle-box-test-XXXXXX";
static char *dir;

static const struct sandbox_spec spec = {.owner = "o", .run = "run", .rollout = "roll"};

static size_t count(const char *run) {
    struct err err = {0};
    json_t *list = NULL;
    assert_ok(box_list(dir, run, &list, &err), &err);
    size_t n = json_array_size(list);
    json_decref(list);
    return n;
}

static unsigned sweep(const char *run) {
    struct err err = {0};
    unsigned n = 0;
    assert_ok(box_sweep(dir, run, false, &n, &err), &err);
    return n;
}

static void a_box_lives_as_long_as_its_lock(void **state) {
    (void)state;
    struct err err = {0};
    struct box b;
    assert_ok(box_make(dir, &spec, &b, &err), &err);
    assert_int_equal(count("run"), 1);
    assert_int_equal(count("other"), 0);
    assert_int_equal(sweep(NULL), 0);
    assert_true(file_exists(b.home));
    AUTO_FREE char *where = mem_strdup(b.dir);
    box_deinit(&b); /* As if its owner had died. */
    assert_true(file_exists(where));
    assert_int_equal(sweep("other"), 0);
    assert_int_equal(sweep("run"), 1);
    assert_false(file_exists(where));
}

static void a_box_that_is_removed_leaves_nothing(void **state) {
    (void)state;
    struct err err = {0};
    struct box b;
    assert_ok(box_make(dir, &spec, &b, &err), &err);
    AUTO_FREE char *where = mem_strdup(b.dir);
    assert_ok(box_remove(&b, &err), &err);
    box_deinit(&b);
    assert_false(file_exists(where));
    assert_int_equal(count(NULL), 0);
}

static void a_box_whose_owner_died_in_making_it_is_swept(void **state) {
    (void)state;
    struct err err = {0};
    AUTO_FREE char *bare = mem_printf("%s/sandboxes/0011223344556677", dir);
    AUTO_FREE char *broken = mem_printf("%s/sandboxes/8899aabbccddeeff", dir);
    AUTO_FREE char *record = mem_printf("%s/record.json", broken);
    assert_int_equal(mkdir(bare, 0711), 0);
    assert_int_equal(mkdir(broken, 0711), 0);
    assert_ok(file_write(record, SV("{\"run\": \"r"), 0600, &err), &err);
    assert_int_equal(sweep("run"), 0); /* Nobody knows whose they were. */
    assert_int_equal(sweep(NULL), 2);
    assert_false(file_exists(bare));
    assert_false(file_exists(broken));
}

static pid_t sleeper(void) {
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            pause();
        }
    }
    return pid;
}

static void a_sweep_ends_the_process_that_was_noted_and_no_other(void **state) {
    (void)state;
    struct err err = {0};
    struct box b;
    int status = 0;
    pid_t noted = sleeper();
    pid_t other = sleeper();
    assert_ok(box_make(dir, &spec, &b, &err), &err);
    assert_ok(box_note_process(&b, noted, &err), &err);
    box_deinit(&b);
    assert_int_equal(sweep(NULL), 1);
    assert_int_equal(waitpid(noted, &status, 0), noted);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(other, &status, WNOHANG), 0);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
}

static void a_number_that_changed_hands_is_nobodys(void **state) {
    (void)state;
    struct err err = {0};
    char boot[BOX_BOOT_MAX];
    unsigned long long start = 0;
    int status = 0;
    pid_t other = sleeper();
    assert_int_equal(box_boot_id(boot), 0);
    assert_int_equal(box_process_start(other, &start), 0);
    struct box_traces t = {.id = "x", .pid = other, .pid_start = start - 1, .boot = boot};
    assert_ok(box_end_processes(&t, &err), &err);
    t.pid_start = start;
    t.boot = "another-boot";
    assert_ok(box_end_processes(&t, &err), &err);
    assert_int_equal(waitpid(other, &status, WNOHANG), 0);
    kill(other, SIGKILL);
    waitpid(other, &status, 0);
}

static int begin(void **state) {
    (void)state;
    struct err err = {0};
    if (!mkdtemp(root) || chmod(root, 0711) < 0 || setenv("SNAFFLE_STATE", root, 1) < 0) {
        return -1;
    }
    return state_dir(&dir, &err);
}

static int end(void **state) {
    (void)state;
    free(dir);
    return file_remove_tree(root, NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_box_lives_as_long_as_its_lock),
    cmocka_unit_test(a_box_that_is_removed_leaves_nothing),
    cmocka_unit_test(a_box_whose_owner_died_in_making_it_is_swept),
    cmocka_unit_test(a_sweep_ends_the_process_that_was_noted_and_no_other),
    cmocka_unit_test(a_number_that_changed_hands_is_nobodys),
};

int main(void) {
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, begin, end);
}
