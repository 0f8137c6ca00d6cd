/* SPDX-License-Identifier: BSD-3-Clause */
/* A disk that takes its time. */
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <time.h>

#include "tests/unit/journal/fixture.h"

#define STALL_NS 50000000

static atomic_bool is_slow;

/* The linker's names. NOLINTBEGIN(bugprone-reserved-identifier) */
ssize_t __real_pwritev64(int fd, const struct iovec *parts, int n, off_t at);
ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int n, off_t at);
/* NOLINTEND(bugprone-reserved-identifier) */

ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int n, off_t at) {
    const struct timespec stall = {.tv_nsec = STALL_NS};
    if (atomic_load(&is_slow)) {
        (void)nanosleep(&stall, NULL);
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

static const struct CMUnitTest tests[] = {
    TEST(a_slow_disk_keeps_who_writes_at_once_waiting_only_once),
};

RUN_TESTS(tests)
