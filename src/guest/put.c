/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/put.h"

#include <errno.h>
#include <fcntl.h>
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

int put(const struct put_options *o, struct err *err) {
    AUTO(files_write_deinit) struct files_write w = FILES_WRITE_NONE;
    AUTO_CLOSE int from = -1;
    uint64_t size;
    int r = files_open_read(AT_FDCWD, o->from, &from, &size, err);
    if (r < 0) {
        return r;
    }
    unlink(o->from);
    if (!become_user(o->user)) {
        return err_sys(err, ERR_DENIED, errno, "cannot become user %u", o->user);
    }
    r = files_write_begin(AT_FDCWD, o->to, o->mode, &w, err);
    r = r < 0 ? r : copy(from, &w, err);
    return r < 0 ? r : files_write_commit(&w, err);
}
