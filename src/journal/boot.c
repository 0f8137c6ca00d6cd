/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "base/mem.h"

#define JOURNALS_MAX 10000 /* Of one process under one folder; more is a loop gone wild. */

static int take(struct boot *b, struct err *err) {
    b->fd = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->fd < 0) {
        return err_sys(err, ERR_SYS, errno, "cannot open the folder '%s'", b->path);
    }
    /* Waits: a reader that asks whether we live holds the lock for an instant. */
    while (flock(b->fd, LOCK_EX) < 0) {
        if (errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot lock the folder '%s'", b->path);
        }
    }
    return 0;
}

int boot_make(const char *dir, struct boot *out, struct err *err) {
    int r = file_mkdirs(dir, 0777, err);
    if (r < 0) {
        return r;
    }
    char host[HOST_LABEL_MAX + 1];
    char process[HOST_PROCESS_MAX + 1];
    host_label(host);
    host_process(process);
    struct boot b = {.fd = -1};
    for (int i = 1; i <= JOURNALS_MAX; i++) {
        int n = i == 1 ? snprintf(b.name, sizeof b.name, "%s-%s", host, process)
                       : snprintf(b.name, sizeof b.name, "%s-%s-%d", host, process, i);
        free(b.path);
        b.path = n < 0 ? NULL : file_join(dir, b.name);
        if (!b.path) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        if (mkdir(b.path, 0777) == 0) {
            break;
        }
        if (errno != EEXIST || i == JOURNALS_MAX) {
            r = err_sys(err, errno == ENOSPC ? ERR_FULL : ERR_SYS, errno,
                        "cannot make the folder '%s'", b.path);
            free(b.path);
            return r;
        }
    }
    r = take(&b, err);
    if (r < 0) {
        boot_deinit(&b);
        return r;
    }
    *out = b;
    return 0;
}

void boot_deinit(struct boot *b) {
    if (b->fd >= 0 && b->path) {
        close(b->fd);
    }
    free(b->path);
    *b = (struct boot){.fd = -1};
}

bool boot_alive(const char *path) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}
