/* SPDX-License-Identifier: BSD-3-Clause */
/* A disk that takes its time. */
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>

#include "tests/unit/journal/fixture.h"

#define STALL_NS 50000000

static atomic_bool is_slow;
static atomic_bool is_held; /* Until it is let go. */
static atomic_bool is_sink; /* Takes all and keeps nothing: what is written is large. */

/* The linker's names. NOLINTBEGIN(bugprone-reserved-identifier) */
ssize_t __real_pwritev64(int fd, const struct iovec *parts, int n, off_t at);
ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int n, off_t at);
/* NOLINTEND(bugprone-reserved-identifier) */

ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int n, off_t at) {
    const struct timespec stall = {.tv_nsec = STALL_NS};
    if (atomic_load(&is_slow)) {
        (void)nanosleep(&stall, NULL);
    }
    while (atomic_load(&is_held)) {
        (void)nanosleep(&stall, NULL);
    }
    if (atomic_load(&is_sink)) {
        ssize_t all = 0;
        for (int i = 0; i < n; i++) {
            all += (ssize_t)parts[i].iov_len;
        }
        return all;
    }
    return __real_pwritev64(fd, parts, n, at);
}

static void post(void *arg, int code) {
    (void)code;
    sem_post(arg);
}

static void a_slow_disk_keeps_who_writes_at_once_waiting_only_once(void **state) {
    (void)state;
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    struct journal_record r = record(1, SV("[1]"));
    sem_t done;
    sem_init(&done, 0, 0);
    atomic_store(&is_slow, true);
    assert_int_equal(journal_append_at_once(j, &r, post, &done, &err), 1);
    atomic_store(&is_slow, false);
    for (r.call = 2; r.call <= 4; r.call++) {
        assert_int_equal(journal_append_at_once(j, &r, post, &done, &err), 0);
        while (sem_wait(&done) < 0) {
        }
    }
    struct journal_reader *reader = open_reader();
    assert_int_equal(count_records(reader), 4);
    journal_reader_close(reader);
    journal_close(j);
    sem_destroy(&done);
}

/* Many calls that end at once, behind a disk that is busy: what they keep is theirs anyway. */
static void records_that_are_kept_are_not_refused_for_what_waits(void **state) {
    (void)state;
    enum { RECORDS = 12, BYTES = 48 << 20 };
    struct err err = {0};
    struct journal *j = open_journal(&(struct journal_options){.dir = root});
    char *bytes = calloc(BYTES, 1);
    assert_non_null(bytes);
    struct journal_record r = record(1, (struct sv){bytes, BYTES});
    sem_t done;
    sem_init(&done, 0, 0);
    atomic_store(&is_sink, true);
    atomic_store(&is_held, true);
    for (; r.call <= RECORDS; r.call++) {
        assert_ok(journal_append_kept(j, &r, post, &done, &err), &err);
    }
    int refused = 0;
    for (; r.call <= 2 * RECORDS && refused == 0; r.call++) {
        refused = journal_append(j, &r, NULL, NULL, &err);
    }
    assert_int_equal(refused, ERR_LIMIT); /* Copies are the queue's. */
    atomic_store(&is_held, false);
    for (int i = 0; i < RECORDS; i++) {
        while (sem_wait(&done) < 0) {
        }
    }
    journal_close(j);
    atomic_store(&is_sink, false);
    free(bytes);
    sem_destroy(&done);
}

static const struct CMUnitTest tests[] = {
    TEST(records_that_are_kept_are_not_refused_for_what_waits),
    TEST(a_slow_disk_keeps_who_writes_at_once_waiting_only_once),
};

RUN_TESTS(tests)
