/* SPDX-License-Identifier: BSD-3-Clause */
#include "disk.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/uio.h>

enum { NEVER = -1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int writes_left = NEVER; /* Until one fails. */
static int syncs_left = NEVER;
static int sync_hold = NEVER; /* Until one waits. */
static bool writes_half;
static atomic_int write_errno;
static atomic_int sync_errno;
static sem_t begun, go;

/* The linker's names. NOLINTBEGIN(bugprone-reserved-identifier) */
ssize_t __real_pwritev64(int fd, const struct iovec *parts, int n, off_t at);
ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int n, off_t at);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
/* NOLINTEND(bugprone-reserved-identifier) */

static void set(int writes, int syncs, int hold, bool half, int errnum) {
    pthread_mutex_lock(&lock);
    writes_left = writes;
    syncs_left = syncs;
    sync_hold = hold;
    writes_half = half;
    write_errno = sync_errno = errnum;
    pthread_mutex_unlock(&lock);
}

void disk_fail_writes(int good, bool is_short, int errnum) {
    set(good, NEVER, NEVER, is_short, errnum);
}

void disk_fail_syncs(int good, int errnum) {
    set(NEVER, good, NEVER, false, errnum);
}

void disk_heal(void) {
    set(NEVER, NEVER, NEVER, false, 0);
}

void disk_hold_sync(int good) {
    sem_init(&begun, 0, 0);
    sem_init(&go, 0, 0);
    set(NEVER, NEVER, good, false, 0);
}

static void await(sem_t *s) {
    while (sem_wait(s) < 0) {
    }
}

void disk_await_sync(void) {
    await(&begun);
}

void disk_release(void) {
    sem_post(&go);
}

/* True: this one's turn to fail, or to wait, has come. */
static bool counts_down(int *left) {
    bool is_due = *left == 0;
    *left -= *left > 0;
    return is_due;
}

enum fate { GOOD, HALF, BAD };

static enum fate write_fate(void) {
    pthread_mutex_lock(&lock);
    bool bad = counts_down(&writes_left);
    bool half = bad && writes_half;
    writes_half = writes_half && !half;
    pthread_mutex_unlock(&lock);
    return half ? HALF : bad ? BAD : GOOD;
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at) {
    enum fate fate = write_fate();
    if (fate == BAD) {
        errno = write_errno;
        return -1;
    }
    return __real_pwrite64(fd, bytes, fate == HALF ? n / 2 : n, at);
}

ssize_t __wrap_pwritev64(int fd, const struct iovec *parts, int n, off_t at) {
    enum fate fate = write_fate();
    if (fate == BAD) {
        errno = write_errno;
        return -1;
    }
    return fate == HALF ? __real_pwrite64(fd, parts[0].iov_base, parts[0].iov_len / 2, at)
                        : __real_pwritev64(fd, parts, n, at);
}

int __wrap_fdatasync(int fd) {
    pthread_mutex_lock(&lock);
    bool bad = counts_down(&syncs_left);
    bool waits = counts_down(&sync_hold);
    if (waits) {
        sync_hold = NEVER;
    }
    pthread_mutex_unlock(&lock);
    if (bad) {
        errno = sync_errno;
        return -1;
    }
    int rc = __real_fdatasync(fd);
    if (waits) { /* It has done its work; only its word is missing. */
        sem_post(&begun);
        await(&go);
    }
    return rc;
}
