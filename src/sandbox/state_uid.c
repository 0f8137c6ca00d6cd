/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "sandbox/state.h"

#define HOLDER_MAX 64 /* A sandbox's id is shorter. */

/* Where the next search begins, so that the thousandth sandbox tries one file and not a thousand.
 * A hint: a lost race costs a longer search. */
static atomic_uint next_offset;
static atomic_bool has_begun;

/* State directories begin in different places, so that sandboxes of two of them seldom share a uid.
 */
static unsigned first_offset(const char *dir) {
    if (!atomic_exchange(&has_begun, true)) {
        unsigned hash = 2166136261u; /* FNV-1a */
        for (const char *p = dir; *p; p++) {
            hash = (hash ^ (unsigned char)*p) * 16777619u;
        }
        atomic_store(&next_offset, hash % STATE_UID_COUNT);
    }
    return atomic_load(&next_offset);
}

/* The file names the sandbox that had the uid last. While that one's directory stands (its owner
 * died and nobody has swept yet), files and perhaps processes of the uid are left: not free. */
static bool is_spent(const char *dir, int fd) {
    char holder[HOLDER_MAX + 1];
    ssize_t n = pread(fd, holder, HOLDER_MAX, 0);
    if (n <= 0) {
        return false;
    }
    holder[n] = '\0';
    AUTO_FREE char *box = mem_printf("%s/sandboxes/%s", dir, holder);
    return !box || strchr(holder, '/') || file_exists(box);
}

/* 1 when the uid is ours, 0 when somebody has it. */
static int try_uid(const char *dir, const char *id, unsigned uid, int *out_fd, struct err *err) {
    AUTO_FREE char *path = mem_printf("%s/uids/%u", dir, uid);
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open '%s'", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        return errno == EWOULDBLOCK ? 0 : err_sys(err, ERR_SYS, errno, "cannot lock '%s'", path);
    }
    if (is_spent(dir, fd)) {
        return 0;
    }
    size_t n = strlen(id);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, id, n, 0) != (ssize_t)n) {
        return err_sys(err, ERR_SYS, errno, "cannot write '%s'", path);
    }
    *out_fd = TAKE_FD(fd);
    return 1;
}

int state_uid_take(const char *dir, const char *id, struct state_uid *out, struct err *err) {
    if (geteuid() != 0) {
        *out = (struct state_uid){.uid = geteuid(), .lock_fd = -1};
        return 0;
    }
    unsigned first = first_offset(dir);
    for (unsigned i = 0; i < STATE_UID_COUNT; i++) {
        unsigned offset = (first + i) % STATE_UID_COUNT;
        int fd = -1;
        int r = try_uid(dir, id, STATE_UID_FIRST + offset, &fd, err);
        if (r < 0) {
            return r;
        }
        if (r > 0) {
            atomic_store(&next_offset, (offset + 1) % STATE_UID_COUNT);
            *out = (struct state_uid){.uid = STATE_UID_FIRST + offset, .lock_fd = fd};
            return 0;
        }
    }
    return err_set(err, ERR_QUOTA,
                   "all %u host uids for sandboxes are taken (run `snaffle gc` to free those of "
                   "dead runs)",
                   STATE_UID_COUNT);
}

void state_uid_release(struct state_uid *u, bool clean) {
    if (u->lock_fd < 0) {
        return;
    }
    if (clean && ftruncate(u->lock_fd, 0) == 0) {
        atomic_store(&next_offset, u->uid - STATE_UID_FIRST);
    }
    close(u->lock_fd);
    u->lock_fd = -1;
}
