/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "tests/unit/journal/fixture.h"

#define THREADS 4
#define APPENDS 1000

static atomic_uint counted;

static void count_done(void *arg, int code) {
    (void)arg;
    if (code == 0) {
        atomic_fetch_add(&counted, 1);
    }
}

static void *append_many(void *arg) {
    struct journal *j = arg;
    static atomic_uint thread;
    unsigned first = atomic_fetch_add(&thread, 1) * APPENDS;
    for (unsigned i = 0; i < APPENDS; i++) {
        struct journal_record r = record(first + i + 1, SV("{\"content\": \"x\"}"));
        if (journal_append(j, &r, count_done, NULL, NULL) < 0) {
            return j; /* Failed. */
        }
    }
    return NULL;
}

/* Each thread appends to the one journal, which is closed after. */
static void append_from_threads(void *(*start)(void *)) {
    struct err err = {0};
    struct journal *j =
        open_journal(&(struct journal_options){.dir = root, .segment_bytes = 50000});
    pthread_t threads[THREADS];
    atomic_store(&counted, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, start, j), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_ok(journal_flush(j, &err), &err);
    assert_int_equal(atomic_load(&counted), THREADS * APPENDS);
    journal_close(j);
}

static void all_that_four_threads_append_is_read_once(void **state) {
    (void)state;
    append_from_threads(append_many);
    struct err err = {0};
    unsigned char seen[THREADS * APPENDS + 1] = {0};
    unsigned last[THREADS] = {0};
    struct journal_reader *r = open_reader();
    struct journal_record got;
    while (journal_reader_next(r, &got, &err) == 1) {
        assert_in_range(got.call, 1, THREADS * APPENDS);
        assert_int_equal(seen[got.call]++, 0);
        unsigned thread = (unsigned)(got.call - 1) / APPENDS;
        assert_true(got.call > last[thread]); /* One thread's records keep their order. */
        last[thread] = (unsigned)got.call;
    }
    for (unsigned call = 1; call <= THREADS * APPENDS; call++) {
        assert_int_equal(seen[call], 1);
    }
    journal_reader_close(r);
}

static void post(void *arg, int code) {
    if (code == 0) {
        sem_post(arg);
    }
}

/* More runs of memory than one write takes. */
static void parts_that_are_kept_are_read_as_they_were(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    AUTO_FREE char *bytes = malloc(400 * 100);
    sem_t done;
    sem_init(&done, 0, 0);
    memset(bytes, '1', 400 * 100);
    for (size_t i = 0; i < 400; i++) {
        struct journal_record r = record(i + 1, (struct sv){bytes + 100 * i, 1 + i % 100});
        r.parts[r.n_parts++] = (struct journal_part){SV("more"), r.parts[0].bytes};
        assert_ok(journal_append_kept(j, &r, post, &done, &err), &err);
    }
    for (size_t i = 0; i < 400; i++) {
        while (sem_wait(&done) < 0) {
        }
    }
    memset(bytes, 'x', 400 * 100); /* Theirs again. */
    journal_close(j);
    struct journal_reader *reader = open_reader();
    struct journal_record got;
    for (size_t i = 0; i < 400; i++) {
        assert_int_equal(journal_reader_next(reader, &got, &err), 1);
        assert_int_equal(got.call, i + 1);
        struct sv part = got.parts[got.n_parts - 1].bytes;
        assert_int_equal(part.n, 1 + i % 100);
        assert_int_equal(part.p[part.n - 1], '1');
    }
    assert_int_equal(journal_reader_next(reader, &got, &err), 0);
    journal_reader_close(reader);
    sem_destroy(&done);
}

static void an_idle_journal_is_written_to_at_once(void **state) {
    (void)state;
    struct err err = {0};
    sem_t done;
    sem_init(&done, 0, 0);
    for (int durable = 0; durable < 2; durable++) {
        struct journal *j =
            open_journal(&(struct journal_options){.dir = root, .durable = durable});
        struct journal_record r = record(1, SV("[1]"));
        assert_int_equal(journal_append_at_once(j, &r, post, &done, &err), !durable);
        if (durable) {
            while (sem_wait(&done) < 0) {
            }
        }
        assert_int_equal(sem_trywait(&done), -1);
        struct journal_reader *reader = open_reader();
        assert_int_equal(count_records(reader), 1 + (unsigned)durable);
        journal_reader_close(reader);
        assert_ok(journal_flush(j, &err), &err);
        journal_close(j);
    }
    sem_destroy(&done);
}

static void *append_at_once(void *arg) {
    struct journal *j = arg;
    static atomic_uint thread;
    unsigned first = atomic_fetch_add(&thread, 1) * APPENDS;
    for (unsigned i = 0; i < APPENDS; i++) {
        static const struct sv bytes = {"[12,34]", 7};
        struct journal_record r = record(first + i + 1, bytes);
        int rc = journal_append_at_once(j, &r, count_done, NULL, NULL);
        if (rc > 0) {
            count_done(NULL, 0);
        }
        if (rc < 0) {
            return j;
        }
    }
    return NULL;
}

static void threads_that_write_at_once_take_turns(void **state) {
    (void)state;
    append_from_threads(append_at_once);
    struct journal_reader *reader = open_reader();
    assert_int_equal(count_records(reader), THREADS * APPENDS);
    journal_reader_close(reader);
}

static void a_record_without_a_time_gets_the_present(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root, .durable = true});
    struct journal_record r = record(1, SV("1"));
    r.time = 0;
    double before = clock_unix();
    append(j, r);
    journal_close(j);
    struct journal_reader *reader = open_reader();
    struct journal_record got;
    assert_int_equal(journal_reader_next(reader, &got, &err), 1);
    assert_true(got.time >= before && got.time <= clock_unix());
    journal_reader_close(reader);
}

static void what_is_queued_at_the_close_is_written(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    for (uint64_t i = 1; i <= 100; i++) {
        struct journal_record r = record(i, SV("{}"));
        assert_ok(journal_append(j, &r, NULL, NULL, &err), &err);
    }
    journal_close(j);
    struct journal_reader *reader = open_reader();
    assert_int_equal(count_records(reader), 100);
    journal_reader_close(reader);
}

static void a_folder_that_cannot_be_made_is_said(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = NULL;
    AUTO_FREE char *file = file_join(root, "file");
    AUTO_FREE char *under = file_join(file, "journal");
    assert_ok(file_write(file, SV(""), 0600, &err), &err);
    assert_err(journal_open(&(struct journal_options){.dir = under}, &j, &err), ERR_SYS, &err,
               "cannot make the folder");
}

/* Appends until one fails; how many were written. */
static unsigned fill(struct journal *j, struct sv part, int *code) {
    unsigned n = 0;
    struct err err = {0};
    do {
        struct journal_record r = record(n + 1, part);
        *code = journal_append_wait(j, &r, &err);
        n += *code == 0;
    } while (*code == 0 && n < 100000);
    return n;
}

/* With the disk full: the failure is told to the record and to those after it; what counted stays
 * whole; `make_room` lets writing begin again. */
static void check_full(struct journal *j, void (*make_room)(void)) {
    static char bytes[3000];
    memset(bytes, '1', sizeof bytes);
    int code = 0;
    struct err err = {0};
    unsigned n = fill(j, (struct sv){bytes, sizeof bytes}, &code);
    assert_true(n > 3);
    assert_int_equal(code, ERR_FULL);
    struct journal_record small = record(90000, SV("1"));
    assert_err(journal_append_wait(j, &small, &err), ERR_FULL, &err, "cannot write the journal");
    struct journal_reader *r = open_reader();
    assert_int_equal(count_records(r), n);
    make_room();
    int64_t until = clock_ms() + 20000;
    while ((code = journal_append_wait(j, &small, &err)) < 0 && clock_ms() < until) {
        assert_int_equal(code, ERR_FULL);
        clock_sleep_ms(50);
    }
    assert_ok(code, &err);
    assert_ok(journal_append_wait(j, &small, &err), &err);
    journal_close(j);
    assert_int_equal(count_records(r), 2);
    assert_int_equal(journal_reader_torn(r), 0);
    journal_reader_close(r);
}

static char *ballast;

static void remove_ballast(void) {
    assert_int_equal(unlink(ballast), 0);
}

#define CANNOT_MOUNT 77

/* Runs a case in a child, whose limits and mounts end with it. */
static void in_child(void (*body)(void)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT) {
        skip_because("no disk of our own can be mounted here");
    }
    assert_int_equal(status, 0);
}

static void fill_a_tmpfs(void) {
    struct err err = {0};
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", root, "tmpfs", 0, "size=256k") < 0) {
        _exit(CANNOT_MOUNT);
    }
    AUTO_BUF struct buf bytes = {0};
    assert_ok(buf_reserve(&bytes, 65536), &err);
    memset(bytes.data, 0, 65536);
    ballast = mem_printf("%s/.ballast", root);
    assert_ok(file_write(ballast, (struct sv){bytes.data, 65536}, 0600, &err), &err);
    check_full(open_journal(&(struct journal_options){.dir = root}), remove_ballast);
}

static void a_full_disk_is_told_and_writing_resumes_when_there_is_room(void **state) {
    (void)state;
    in_child(fill_a_tmpfs);
}

static void raise_limit(void) {
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void pass_the_file_size_limit(void) {
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    check_full(j, raise_limit);
}

static void a_file_size_limit_is_a_full_disk_and_no_signal(void **state) {
    (void)state;
    in_child(pass_the_file_size_limit);
}

static int told; /* A pipe's end. */

static void tell(void *arg, int code) {
    uint32_t call = (uint32_t)(uintptr_t)arg;
    if (code == 0 && write(told, &call, sizeof call) < 0) {
        abort();
    }
}

static void write_for_ever(void) {
    struct journal *j =
        open_journal(&(struct journal_options){.dir = root, .segment_bytes = 100000});
    static char bytes[5000];
    memset(bytes, '7', sizeof bytes);
    for (uintptr_t call = 1;; call++) {
        struct journal_record r = record(call, (struct sv){bytes, 1 + call * 37 % sizeof bytes});
        while (journal_append(j, &r, tell, (void *)call, NULL) < 0) {
            clock_sleep_ms(1);
        }
    }
}

static void after_kill_9_every_record_that_counted_is_there(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        told = ends[1];
        write_for_ever();
    }
    close(ends[1]);
    uint32_t call = 0;
    uint32_t counted_calls = 0;
    while (read(ends[0], &call, sizeof call) == sizeof call) {
        assert_int_equal(call, ++counted_calls);
        if (counted_calls == 500) {
            kill(pid, SIGKILL); /* What is in the pipe already is still read. */
        }
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ends[0]);
    assert_true(counted_calls >= 500);
    struct journal_reader *r = open_reader();
    assert_true(count_records(r) >= counted_calls);
    assert_true(journal_reader_torn(r) <= 1);
    journal_reader_close(r);
}

static const struct CMUnitTest tests[] = {
    TEST(all_that_four_threads_append_is_read_once),
    TEST(an_idle_journal_is_written_to_at_once),
    TEST(threads_that_write_at_once_take_turns),
    TEST(parts_that_are_kept_are_read_as_they_were),
    TEST(a_record_without_a_time_gets_the_present),
    TEST(what_is_queued_at_the_close_is_written),
    TEST(a_folder_that_cannot_be_made_is_said),
    TEST(a_full_disk_is_told_and_writing_resumes_when_there_is_room),
    TEST(a_file_size_limit_is_a_full_disk_and_no_signal),
    TEST(after_kill_9_every_record_that_counted_is_there),
};

RUN_TESTS(tests)
