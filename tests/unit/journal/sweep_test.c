/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/sweep.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <utime.h>

#include "journal/trace.h"
#include "tests/unit/journal/fixture.h"

#define SEGMENT_BYTES 2000 /* Some eight of the records below. */

static struct journal_record call_of(const char *session, uint64_t call) {
    static char text[150];
    memset(text, '1', sizeof text);
    struct journal_record r = record(call, (struct sv){text, sizeof text});
    r.session = sv_from(session);
    return r;
}

static struct journal *fresh(void) {
    return open_journal(&(struct journal_options){.dir = root, .segment_bytes = SEGMENT_BYTES});
}

static void append_calls(struct journal *j, const char *session, unsigned n) {
    for (uint64_t call = 1; call <= n; call++) {
        append(j, call_of(session, call));
    }
}

/* Files below `path`; -1: there is no such folder. */
static int count_files(const char *path) {
    DIR *d = opendir(path);
    const struct dirent *e;
    int n = d ? 0 : -1;
    while (d && (e = readdir(d))) {
        AUTO_FREE char *inner = file_join(path, e->d_name);
        if (e->d_name[0] != '.') {
            int in = count_files(inner);
            n += in < 0 ? 1 : in;
        }
    }
    if (d) {
        closedir(d);
    }
    return n;
}

static int count_folders(void) {
    DIR *d = opendir(root);
    const struct dirent *e;
    int n = 0;
    while ((e = readdir(d))) {
        n += e->d_name[0] != '.';
    }
    closedir(d);
    return n;
}

static void release(struct journal *j, const char *session) {
    struct err err = {0};
    assert_ok(journal_release(j, sv_from(session), &err), &err);
}

static unsigned own_records(struct journal *j, const char *session) {
    struct err err = {0};
    struct journal_reader *r = NULL;
    assert_int_equal(journal_reader_own(j, sv_from(session), &r, &err), 1);
    unsigned n = count_records(r);
    journal_reader_close(r);
    return n;
}

static void a_segment_goes_once_all_its_sessions_are_released(void **state) {
    (void)state;
    struct journal *j = fresh();
    append_calls(j, "a.1", 20);
    append_calls(j, "b.1", 20);
    append_calls(j, "a.1", 1);
    int all = count_files(root);
    assert_true(all >= 5);
    release(j, "b.1"); /* A part of its records share segments with a.1. */
    int after = count_files(root);
    assert_true(after < all && after >= 4);
    assert_int_equal(own_records(j, "a.1"), 21);
    release(j, "a.1");
    assert_int_equal(count_files(root), 1); /* What is still written to. */
    append_calls(j, "c.1", 1);
    assert_int_equal(own_records(j, "c.1"), 1);
    release(j, "c.1");
    journal_close(j);
    assert_int_equal(count_folders(), 0);
}

static void what_is_not_released_outlives_the_writer(void **state) {
    (void)state;
    struct journal *j = fresh();
    append_calls(j, "a.1", 12);
    append_calls(j, "b.1", 12);
    journal_forget(j, SV("a.1")); /* Forgotten is not released. */
    release(j, "b.1");
    journal_close(j);
    struct journal_reader *r = open_reader();
    struct err err = {0};
    assert_ok(journal_reader_only(r, SV("a.1"), &err), &err);
    assert_int_equal(count_records(r), 12);
    journal_reader_close(r);
}

static void a_writer_without_a_record_leaves_nothing(void **state) {
    (void)state;
    journal_close(fresh());
    assert_int_equal(count_folders(), 0);
}

/* A writer that is killed when it has done what `work` does. */
static void killed_after(void (*work)(struct journal *j)) {
    pid_t pid = fork();
    if (pid == 0) {
        struct journal *j = NULL;
        const struct journal_options o = {.dir = root, .segment_bytes = SEGMENT_BYTES};
        if (journal_open(&o, &j, NULL) == 0) {
            work(j);
            raise(SIGKILL);
        }
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void put_calls(struct journal *j, const char *session, unsigned n) {
    for (uint64_t call = 1; call <= n; call++) {
        const struct journal_record r = call_of(session, call);
        if (journal_append_wait(j, &r, NULL) < 0) {
            _exit(1);
        }
    }
}

/* As a process leaves it that dies between its word and the removal. */
static void put_traced(struct journal *j, const char *session) {
    const struct journal_record r = {
        .type = JOURNAL_TRACED, .session = sv_from(session), .head = SV("{}")};
    if (journal_append_wait(j, &r, NULL) < 0) {
        _exit(1);
    }
}

static void put_opening(struct journal *j, const char *session) {
    const struct journal_record r = {
        .type = JOURNAL_SESSION_OPEN, .session = sv_from(session), .head = SV("{}")};
    if (journal_append_wait(j, &r, NULL) < 0) {
        _exit(1);
    }
}

static void write_traced_and_not(struct journal *j) {
    put_opening(j, "done.1");
    put_calls(j, "done.1", 20);
    put_opening(j, "open.1");
    put_calls(j, "open.1", 3);
    put_traced(j, "done.1");
}

static void write_traced(struct journal *j) {
    put_opening(j, "done.1");
    put_calls(j, "done.1", 20);
    put_traced(j, "done.1");
}

static void write_nothing(struct journal *j) {
    (void)j;
}

static struct journal_swept sweep(bool dry) {
    struct journal_swept n = {0};
    struct err err = {0};
    assert_ok(journal_sweep(root, dry, &n, &err), &err);
    return n;
}

static void a_sweep_takes_from_the_dead_what_has_its_trace(void **state) {
    (void)state;
    killed_after(write_traced_and_not);
    int all = count_files(root);
    struct journal_swept n = sweep(/* dry= */ true);
    assert_int_equal(count_files(root), all);
    assert_true(n.segments >= 2 && n.kept >= 1);
    assert_int_equal(n.segments + n.kept, all);
    assert_true(n.bytes > n.segments * 100);
    struct journal_swept done = sweep(/* dry= */ false);
    assert_memory_equal(&done, &n, sizeof n);
    assert_int_equal(count_files(root), n.kept);
    struct journal_reader *r = open_reader();
    struct err err = {0};
    assert_ok(journal_reader_only(r, SV("open.1"), &err), &err);
    assert_int_equal(count_records(r), 4);
    journal_reader_close(r);
    n = sweep(/* dry= */ false);
    assert_int_equal(n.segments, 0);
}

static void a_sweep_removes_the_folder_with_its_last_segment(void **state) {
    (void)state;
    killed_after(write_traced);
    killed_after(write_nothing);
    assert_int_equal(count_folders(), 2);
    assert_true(sweep(/* dry= */ false).segments >= 3);
    assert_int_equal(count_folders(), 0);
}

static void a_sweep_leaves_the_living_alone(void **state) {
    (void)state;
    struct journal *j = fresh();
    put_opening(j, "a.1");
    put_calls(j, "a.1", 20);
    put_traced(j, "a.1");
    int all = count_files(root);
    struct journal_swept n = sweep(/* dry= */ false);
    assert_int_equal(n.segments + n.kept, 0);
    assert_int_equal(count_files(root), all);
    journal_close(j);
}

/* A writer makes its folder, and then locks it. */
static void an_empty_folder_is_removed_only_when_it_is_old(void **state) {
    (void)state;
    AUTO_FREE char *path = file_join(root, "host-1-1");
    assert_int_equal(mkdir(path, 0777), 0);
    (void)sweep(/* dry= */ false);
    assert_int_equal(count_folders(), 1);
    time_t before = time(NULL) - 3600;
    assert_int_equal(utime(path, &(struct utimbuf){before, before}), 0);
    (void)sweep(/* dry= */ false);
    assert_int_equal(count_folders(), 0);
}

static void a_folder_that_is_not_there_needs_no_sweep(void **state) {
    (void)state;
    struct journal_swept n = {0};
    struct err err = {0};
    assert_ok(journal_sweep("/nonexistent/journal", false, &n, &err), &err);
}

/* Its session opened again, after a trace of what was before. */
static void write_opened_again(struct journal *j) {
    write_traced(j);
    put_opening(j, "done.1");
    put_calls(j, "done.1", 1);
}

static void a_session_that_is_opened_again_is_not_traced_any_more(void **state) {
    (void)state;
    killed_after(write_opened_again);
    assert_int_equal(sweep(/* dry= */ false).segments, 0);
}

static const struct CMUnitTest tests[] = {
    TEST(a_segment_goes_once_all_its_sessions_are_released),
    TEST(what_is_not_released_outlives_the_writer),
    TEST(a_writer_without_a_record_leaves_nothing),
    TEST(a_sweep_takes_from_the_dead_what_has_its_trace),
    TEST(a_sweep_removes_the_folder_with_its_last_segment),
    TEST(a_sweep_leaves_the_living_alone),
    TEST(an_empty_folder_is_removed_only_when_it_is_old),
    TEST(a_folder_that_is_not_there_needs_no_sweep),
    TEST(a_session_that_is_opened_again_is_not_traced_any_more),
};

RUN_TESTS(tests)
