/* SPDX-License-Identifier: BSD-3-Clause */
#include "sandbox/guest_client.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/unit/guest/guest_fixture.h"

/* Runs shell text and gives what it wrote, which the caller frees. */
static char *shell(struct guest_fixture *f, const char *text) {
    struct err err = {0};
    struct sandbox_output o = {0};
    assert_ok(guest_exec(&f->client, &(struct sandbox_exec){.shell = text}, &o, &err), &err);
    if (o.exit_code != 0) {
        fail_msg("'%s' gave %d: %s", text, o.exit_code, buf_cstr(&o.err));
    }
    buf_deinit(&o.err);
    return buf_take(&o.out);
}

static void run(struct guest_fixture *f, const char *text) {
    free(shell(f, text));
}

static void check_content(struct guest_fixture *f, const char *path, struct sv want) {
    struct err err = {0};
    AUTO_BUF struct buf got = {0};
    assert_ok(guest_read_file(&f->client, path, 0, want.n + 1, &got, &err), &err);
    assert_true(sv_eq(buf_sv(&got), want));
}

static void a_guest_says_hello(void **state) {
    GUEST_OR_SKIP(state);
    assert_ok(guest_hello(&f->client, deadline_in_s(5), NULL, &err), &err);
}

static void a_file_comes_back_as_it_was_written(void **state) {
    GUEST_OR_SKIP(state);
    assert_ok(guest_write_file(&f->client, "small", SV("a\0b\n"), 0600, &err), &err);
    check_content(f, "small", SV("a\0b\n"));
    assert_ok(guest_write_file(&f->client, "small", SV(""), 0600, &err), &err);
    check_content(f, "small", SV(""));
    size_t n = 3u * 1024 * 1024 + 5;
    AUTO_FREE char *bytes = malloc(n);
    assert_non_null(bytes);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (char)(i * 7 >> 2);
    }
    assert_ok(guest_write_file(&f->client, "big", (struct sv){bytes, n}, 0600, &err), &err);
    check_content(f, "big", (struct sv){bytes, n});
}

static void a_part_of_a_file_is_read_and_past_its_end_nothing(void **state) {
    GUEST_OR_SKIP(state);
    static const struct {
        uint64_t offset;
        size_t length;
        const char *want;
    } rows[] = {
        {0, 4, "0123"},      {8, 100, "89"}, {10, 5, ""},          {11, 5, ""},
        {UINT64_MAX, 5, ""}, {3, 0, ""},     {INT64_MAX, 100, ""}, {0, SIZE_MAX, "0123456789"}};
    assert_ok(guest_write_file(&f->client, "digits", SV("0123456789"), 0600, &err), &err);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf got = {0};
        assert_int_equal(buf_adds(&got, "before:"), 0);
        assert_ok(guest_read_file(&f->client, "digits", rows[i].offset, rows[i].length, &got, &err),
                  &err);
        assert_string_equal(buf_cstr(&got) + strlen("before:"), rows[i].want);
    }
}

static void what_is_no_regular_file_is_not_read(void **state) {
    GUEST_OR_SKIP(state);
    run(f, "echo secret >file; ln -s file link; ln -s missing dangling; mkfifo fifo; mkdir folder");
    static const struct {
        const char *path;
        int code;
        const char *words;
    } rows[] = {
        {"link", ERR_INPUT, "'link': it is a link"},
        {"dangling", ERR_INPUT, "'dangling': it is a link"},
        {"fifo", ERR_INPUT, "'fifo': it is not a regular file"},
        {"folder", ERR_INPUT, "'folder': it is not a regular file"},
        {"/dev/zero", ERR_INPUT, "it is not a regular file"},
        {"/proc/version", ERR_INPUT, "it is not a regular file"},
        {"missing", ERR_NOT_FOUND, "'missing'"},
        {"file/below", ERR_NOT_FOUND, "'file/below'"},
        {"", ERR_INPUT, "path"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF struct buf got = {0};
        assert_err(guest_read_file(&f->client, rows[i].path, 0, 100, &got, &err), rows[i].code,
                   &err, rows[i].words);
        assert_int_equal(got.len, 0);
    }
}

static void a_path_makes_the_folders_it_names_and_no_others(void **state) {
    GUEST_OR_SKIP(state);
    assert_ok(guest_write_file(&f->client, "file", SV("1"), 0644, &err), &err);
    assert_ok(guest_write_file(&f->client, "./other", SV("2"), 0644, &err), &err);
    AUTO_FREE char *flat = shell(f, "ls -A");
    assert_string_equal(flat, "file\nother\n");
    assert_ok(guest_write_file(&f->client, "a/b/c", SV("3"), 0644, &err), &err);
    assert_ok(guest_write_file(&f->client, "a/b/d", SV("4"), 0644, &err), &err);
    AUTO_FREE char *deep = shell(f, "find . -mindepth 1 | sort");
    assert_string_equal(deep, "./a\n./a/b\n./a/b/c\n./a/b/d\n./file\n./other\n");
    AUTO_FREE char *home = shell(f, "pwd -P | tr -d '\\n'");
    AUTO_FREE char *absolute = mem_printf("%s/x/y", home);
    assert_ok(guest_write_file(&f->client, absolute, SV("5"), 0644, &err), &err);
    check_content(f, "x/y", SV("5"));
}

static void a_file_gets_the_mode_that_was_asked_for(void **state) {
    GUEST_OR_SKIP(state);
    assert_ok(guest_write_file(&f->client, "plain", SV(""), 0644, &err), &err);
    assert_ok(guest_write_file(&f->client, "run", SV("#!/bin/sh\necho ran\n"), 0755, &err), &err);
    AUTO_FREE char *out = shell(f, "stat -c %a plain run; ./run");
    assert_string_equal(out, "644\n755\nran\n");
}

static void a_link_is_replaced_and_not_followed(void **state) {
    GUEST_OR_SKIP(state);
    run(f, "echo old >target; ln -s target link; mkfifo fifo; mkdir folder");
    assert_ok(guest_write_file(&f->client, "link", SV("new"), 0644, &err), &err);
    check_content(f, "target", SV("old\n"));
    check_content(f, "link", SV("new"));
    assert_ok(guest_write_file(&f->client, "fifo", SV("new"), 0644, &err), &err);
    check_content(f, "fifo", SV("new"));
    assert_err(guest_write_file(&f->client, "folder", SV("new"), 0644, &err), ERR_INPUT, &err,
               "'folder'");
    assert_err(guest_write_file(&f->client, "folder/", SV("new"), 0644, &err), ERR_INPUT, &err,
               "names a folder");
    assert_err(guest_write_file(&f->client, "..", SV("new"), 0644, &err), ERR_INPUT, &err,
               "names a folder");
    assert_err(guest_write_file(&f->client, "target/x", SV("new"), 0644, &err), ERR_NOT_FOUND, &err,
               "target");
    AUTO_FREE char *left = shell(f, "ls -A");
    assert_string_equal(left, "fifo\nfolder\nlink\ntarget\n");
}

/* A reader sees the old file or the new one, and never a part. */
static void a_write_is_whole(void **state) {
    GUEST_OR_SKIP(state);
    size_t n = 1024u * 1024;
    AUTO_FREE char *bytes = malloc(n);
    assert_non_null(bytes);
    memset(bytes, 'a', n);
    assert_ok(guest_write_file(&f->client, "file", (struct sv){bytes, n}, 0644, &err), &err);
    uint32_t job = 0;
    struct sandbox_exec what = {
        .shell = "while x=$(md5sum <file); echo \"$x\"; [ ! -e stop ]; do :; done",
        .stdout_path = "kinds",
    };
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    for (int i = 0; i < 20; i++) {
        memset(bytes, 'a' + i % 2, n);
        assert_ok(guest_write_file(&f->client, "file", (struct sv){bytes, n}, 0644, &err), &err);
    }
    assert_ok(guest_write_file(&f->client, "stop", SV(""), 0644, &err), &err);
    int code;
    assert_ok(guest_wait(&f->client, job, deadline_in_s(10), NULL, &code, &err), &err);
    AUTO_FREE char *kinds = shell(f, "sort -u kinds | wc -l");
    assert_true(strcmp(kinds, "1\n") == 0 || strcmp(kinds, "2\n") == 0);
}

static void a_write_that_fails_leaves_the_old_file(void **state) {
    GUEST_OR_SKIP(state);
    size_t n = 1024u * 1024;
    AUTO_FREE char *bytes = calloc(1, n);
    assert_non_null(bytes);
    assert_ok(guest_write_file(&f->client, "/tiny/file", SV("old"), 0644, &err), &err);
    assert_err(guest_write_file(&f->client, "/tiny/file", (struct sv){bytes, n}, 0644, &err),
               ERR_FULL, &err, "'file'");
    check_content(f, "/tiny/file", SV("old"));
    AUTO_FREE char *left = shell(f, "ls -A /tiny");
    assert_string_equal(left, "file\n");
}

static void it_is_known_whether_a_path_exists(void **state) {
    GUEST_OR_SKIP(state);
    run(f, "touch file; mkdir folder; ln -s file link; ln -s nowhere dangling");
    assert_int_equal(guest_exists(&f->client, "file", &err), 1);
    assert_int_equal(guest_exists(&f->client, "folder", &err), 1);
    assert_int_equal(guest_exists(&f->client, "link", &err), 1);
    assert_int_equal(guest_exists(&f->client, "dangling", &err), 0);
    assert_int_equal(guest_exists(&f->client, "missing", &err), 0);
    assert_int_equal(guest_exists(&f->client, "file/x", &err), 0);
    assert_int_equal(guest_exists(&f->client, "/", &err), 1);
}

static void all_are_killed_seen_dead_and_have_their_records(void **state) {
    GUEST_OR_SKIP(state);
    uint32_t jobs[3];
    struct sandbox_exec what = {
        .shell = "trap '' TERM; for i in 1 2 3; do (setsid sh -c 'sleep $SLEEP & sleep $SLEEP' &); "
                 "done; touch up; sleep $SLEEP"};
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        assert_ok(guest_start(&f->client, &what, &jobs[i], &err), &err);
    }
    clock_sleep_ms(300);
    assert_ok(guest_kill_all(&f->client, deadline_in_s(10), &err), &err);
    AUTO_FREE char *left =
        shell(f, "for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$p; echo; done 2>/dev/null | "
                 "grep -c \"^sleep $SLEEP\" || true");
    assert_string_equal(left, "0\n");
    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        int code = -1;
        assert_ok(guest_wait(&f->client, jobs[i], deadline_in_s(5), NULL, &code, &err), &err);
        assert_int_equal(code, 137);
    }
    assert_ok(guest_kill_all(&f->client, deadline_in_s(10), &err), &err);
}

static void *exec_sleep(void *arg) {
    struct guest_fixture *f = arg;
    struct err err = {0};
    struct sandbox_output o = {0};
    long code = guest_exec(&f->client, &(struct sandbox_exec){.shell = "sleep $SLEEP"}, &o, &err);
    buf_deinit(&o.out);
    buf_deinit(&o.err);
    return (void *)(code < 0 ? code : (long)o.exit_code);
}

static void calls_run_side_by_side_and_a_running_one_ends_with_all(void **state) {
    GUEST_OR_SKIP(state);
    pthread_t threads[8];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, exec_sleep, f), 0);
    }
    clock_sleep_ms(300);
    run(f, "true");
    assert_ok(guest_kill_all(&f->client, deadline_in_s(10), &err), &err);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_int_equal((long)result, 137);
    }
}

/* A process that forks faster than one can look at it. */
static void a_process_that_forks_without_end_is_killed(void **state) {
    GUEST_OR_SKIP(state);
    uint32_t job = 0;
    struct sandbox_exec what = {.shell = "while :; do (setsid true &); done & sleep $SLEEP"};
    assert_ok(guest_start(&f->client, &what, &job, &err), &err);
    clock_sleep_ms(200);
    assert_ok(guest_kill_all(&f->client, deadline_in_s(10), &err), &err);
}

static void what_a_command_leaves_is_reaped(void **state) {
    GUEST_OR_SKIP(state);
    run(f, "for i in 1 2 3 4 5; do (setsid sh -c 'sleep 0.01' &) ; (true &); done");
    clock_sleep_ms(300);
    AUTO_FREE char *zombies = shell(f, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z' || true");
    if (f->is_init) {
        assert_string_equal(zombies, "0\n");
    }
}

/* Killed itself, a plain guest leaves its command behind: one that ends soon. */
static void a_guest_that_is_gone_is_lost(void **state) {
    GUEST_OR_SKIP(state);
    struct sandbox_output o = {0};
    struct sandbox_exec what = {.shell = "true"};
    uint32_t job;
    int code;
    assert_ok(guest_start(&f->client, &(struct sandbox_exec){.shell = "sleep 10"}, &job, &err),
              &err);
    kill(f->pid, SIGKILL);
    guest_fixture_wait(f);
    clock_sleep_ms(100);
    assert_int_equal(guest_exec(&f->client, &what, &o, &err), ERR_LOST);
    assert_int_equal(guest_wait(&f->client, job, deadline_in_s(5), NULL, &code, &err), ERR_LOST);
    assert_int_equal(guest_hello(&f->client, deadline_in_s(5), NULL, &err), ERR_LOST);
}

static const struct CMUnitTest tests[] = {
    guest_unit_test(a_guest_says_hello),
    guest_unit_test(a_file_comes_back_as_it_was_written),
    guest_unit_test(a_part_of_a_file_is_read_and_past_its_end_nothing),
    guest_unit_test(what_is_no_regular_file_is_not_read),
    guest_unit_test(a_path_makes_the_folders_it_names_and_no_others),
    guest_unit_test(a_file_gets_the_mode_that_was_asked_for),
    guest_unit_test(a_link_is_replaced_and_not_followed),
    guest_unit_test(a_write_is_whole),
    guest_unit_test(it_is_known_whether_a_path_exists),
    guest_unit_test(all_are_killed_seen_dead_and_have_their_records),
    guest_unit_test(calls_run_side_by_side_and_a_running_one_ends_with_all),
    guest_unit_test(what_a_command_leaves_is_reaped),
    guest_unit_test(a_guest_that_is_gone_is_lost),
    /* Only as pid 1: it has a small file system, and the kernel kills all at once for it. */
    guest_unit_test(a_write_that_fails_leaves_the_old_file),
    guest_unit_test(a_process_that_forks_without_end_is_killed),
};

RUN_GUEST_TESTS(tests, /*only_init=*/2)
