/* SPDX-License-Identifier: BSD-3-Clause */
/* Several processes write under one run, some die, and others read meanwhile. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "journal/boot.h"
#include "tests/unit/journal/fixture.h"

#define WRITERS 8
#define RECORDS 300

/* What the writers tell, also when they are dead. */
struct shared {
    atomic_bool go;
    atomic_uint failed;
    atomic_uint opened;
    atomic_uint written[WRITERS]; /* Records that count. */
};

static struct shared *shared;

static int share(void **state) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : make_root(state);
}

static int unshare_root(void **state) {
    (void)munmap(shared, sizeof *shared);
    return remove_root(state);
}

/* In a process of its own: every other one kills itself in the middle of writing. */
static void write_records(unsigned i) {
    char session[16];
    struct journal *j = NULL;
    const struct journal_options o = {.dir = root, .segment_bytes = 20000};
    (void)snprintf(session, sizeof session, "p-%u.1", i);
    while (!shared->go) {
        clock_sleep_ms(1);
    }
    if (journal_open(&o, &j, NULL) < 0) {
        shared->failed++;
        _exit(1);
    }
    shared->opened++;
    for (uint64_t call = 1; call <= RECORDS; call++) {
        struct journal_record r = record(call, SV("{\"content\":\"some text\"}"));
        r.session = sv_from(session);
        if (i % 2 == 1 && call == RECORDS / 2) {
            shared->failed += journal_append(j, &r, NULL, NULL, NULL) < 0;
            raise(SIGKILL); /* The last one may be there, or not. */
        }
        if (journal_append_wait(j, &r, NULL) < 0) {
            shared->failed++;
            _exit(1);
        }
        shared->written[i]++;
    }
    journal_close(j);
    _exit(0);
}

static void start_all(pid_t pids[WRITERS]) {
    for (unsigned i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            write_records(i);
        }
        assert_true(pids[i] > 0);
    }
    shared->go = true;
}

/* Reads on; each record of each writer comes once, in its order. */
static void read_on(struct journal_reader *r, unsigned last[WRITERS]) {
    struct journal_record got;
    struct err err = {0};
    int rc;
    while ((rc = journal_reader_next(r, &got, &err)) == 1) {
        unsigned i = (unsigned)(got.session.p[2] - '0');
        assert_in_range(i, 0, WRITERS - 1);
        assert_int_equal(got.call, last[i] + 1);
        last[i]++;
    }
    assert_ok(rc, &err);
}

static bool any_lives(pid_t pids[WRITERS]) {
    bool lives = false;
    for (unsigned i = 0; i < WRITERS; i++) {
        int status;
        if (pids[i] > 0 && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
            assert_true(i % 2 == 1 ? WIFSIGNALED(status) : WIFEXITED(status));
            pids[i] = 0;
        }
        lives = lives || pids[i] > 0;
    }
    return lives;
}

static void what_many_processes_write_at_once_is_read_while_they_live_and_die(void **state) {
    (void)state;
    pid_t pids[WRITERS];
    unsigned last[WRITERS] = {0};
    start_all(pids);
    struct journal_reader *r = open_reader();
    while (any_lives(pids)) {
        read_on(r, last);
        clock_sleep_ms(1);
    }
    read_on(r, last);
    assert_int_equal(shared->failed, 0);
    assert_int_equal(shared->opened, WRITERS);
    for (unsigned i = 0; i < WRITERS; i++) {
        unsigned counted = shared->written[i];
        assert_int_equal(counted, i % 2 == 1 ? RECORDS / 2 - 1 : RECORDS);
        assert_in_range(last[i], counted, counted + i % 2);
    }
    assert_in_range(journal_reader_torn(r), 0, WRITERS / 2);
    journal_reader_close(r);
    /* One who comes later reads the same. */
    unsigned again[WRITERS] = {0};
    r = open_reader();
    read_on(r, again);
    assert_memory_equal(again, last, sizeof last);
    journal_reader_close(r);
}

static unsigned count_boots(unsigned *alive) {
    DIR *d = opendir(root);
    const struct dirent *e;
    unsigned n = 0;
    *alive = 0;
    while ((e = readdir(d))) {
        if (e->d_name[0] != '.') {
            AUTO_FREE char *path = file_join(root, e->d_name);
            *alive += boot_alive(path);
            n++;
        }
    }
    closedir(d);
    return n;
}

static void each_process_has_a_folder_and_its_lock_ends_with_it(void **state) {
    (void)state;
    pid_t pids[WRITERS];
    unsigned alive = 0;
    start_all(pids);
    while (any_lives(pids)) {
        clock_sleep_ms(1);
    }
    assert_int_equal(count_boots(&alive), WRITERS);
    assert_int_equal(alive, 0); /* Also those that were killed. */
    struct journal *one = open_journal(&(struct journal_options){.dir = root});
    struct journal *two = open_journal(&(struct journal_options){.dir = root});
    append(one, record(1, SV("1")));
    append(two, record(2, SV("2")));
    assert_int_equal(count_boots(&alive), WRITERS + 2); /* Two of one process, too. */
    assert_int_equal(alive, 2);
    journal_close(one);
    (void)count_boots(&alive);
    assert_int_equal(alive, 1);
    journal_close(two);
}

/* Writers look whether others live, and so do readers: that must not keep one from its own lock. */
static void who_asks_whether_a_writer_lives_does_not_keep_it_from_its_folder(void **state) {
    (void)state;
    pid_t asker = fork();
    if (asker == 0) {
        for (;;) {
            unsigned alive;
            (void)count_boots(&alive);
        }
    }
    for (int i = 0; i < 50; i++) {
        struct journal *j = open_journal(&(struct journal_options){.dir = root});
        append(j, record(1, SV("1")));
        journal_close(j);
    }
    kill(asker, SIGKILL);
    assert_int_equal(waitpid(asker, NULL, 0), asker);
    struct journal_reader *r = open_reader();
    assert_int_equal(count_records(r), 50);
    journal_reader_close(r);
}

#define SHARED_TEST(name) cmocka_unit_test_setup_teardown(name, share, unshare_root)

static const struct CMUnitTest tests[] = {
    SHARED_TEST(what_many_processes_write_at_once_is_read_while_they_live_and_die),
    SHARED_TEST(each_process_has_a_folder_and_its_lock_ends_with_it),
    TEST(who_asks_whether_a_writer_lives_does_not_keep_it_from_its_folder),
};

RUN_TESTS(tests)
