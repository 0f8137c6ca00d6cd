/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/put.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/files.h"
#include "guest/protocol.h"
#include "guest/spawn.h"

static int copy(int from_fd, struct files_write *w, struct err *err) {
    static char bytes[PROTOCOL_BYTES_MAX];
    for (;;) {
        ssize_t n = read(from_fd, bytes, sizeof bytes);
        if (n <= 0) {
            return n < 0 ? err_sys(err, ERR_SYS, errno, "cannot read what was uploaded") : 0;
        }
        int r = files_write_add(w, (struct sv){bytes, (size_t)n}, err);
        if (r < 0) {
            return r;
        }
    }
}

/* Its inode where that may be, else a copy of it. */
static int place(const struct put_options *o, int from, struct err *err) {
    AUTO(files_write_deinit) struct files_write w = FILES_WRITE_NONE;
    int r = files_write_adopt(AT_FDCWD, o->to, o->mode, from, &w, err);
    if (r == ERR_UNSUPPORTED) {
        r = files_write_begin(AT_FDCWD, o->to, o->mode, &w, err);
        r = r < 0 ? r : copy(from, &w, err);
    }
    return r < 0 ? r : files_write_commit(&w, err);
}

/* In a process of that user's: what was uploaded is removed by who has the right to. */
static int place_as(const struct put_options *o, int from, struct err *err) {
    int told[2];
    struct err heard = {0};
    if (pipe2(told, O_CLOEXEC) < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot make a pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        int r = become_user(o->user)
                    ? place(o, from, &heard)
                    : err_sys(&heard, ERR_DENIED, errno, "cannot become user %u", o->user);
        heard.code = r;
        _exit(write(told[1], &heard, sizeof heard) == (ssize_t)sizeof heard ? 0 : 1);
    }
    int reason = errno;
    close(told[1]);
    ssize_t n = pid > 0 ? read(told[0], &heard, sizeof heard) : 0;
    close(told[0]);
    if (pid < 0) {
        return err_sys(err, ERR_SYS, reason, "cannot start a process");
    }
    waitpid(pid, NULL, 0);
    if (n != (ssize_t)sizeof heard) {
        return err_set(err, ERR_SYS, "the process that puts '%s' in place was killed", o->to);
    }
    *err = heard;
    return heard.code;
}

int put(const struct put_options *o, struct err *err) {
    AUTO_CLOSE int from = -1;
    uint64_t size;
    int r = files_open_read(AT_FDCWD, o->from, &from, &size, err);
    if (r < 0) {
        return r;
    }
    if (o->user != 0 && fchown(from, o->user, o->user) < 0) {
        r = err_sys(err, ERR_DENIED, errno, "cannot become user %u", o->user);
    }
    r = r < 0 ? r : o->user == 0 ? place(o, from, err) : place_as(o, from, err);
    unlink(o->from);
    return r;
}
