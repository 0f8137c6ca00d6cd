/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/record.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/files.h"
#include "guest/protocol.h"

#define RECORD_MODE 0644 /* As other files that commands write. */
#define RECORD_MAX 4096

char *record_path(const char *dir, const char *name) {
    return mem_printf("%s/%s", dir, name);
}

/* Whole or not at all: readers poll for it. */
static int put(const char *dir, struct protocol_out *o, struct err *err) {
    AUTO(files_write_deinit) struct files_write w = FILES_WRITE_NONE;
    AUTO_FREE char *path = record_path(dir, "exit");
    if (!path || protocol_fields_end(o) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = files_write_begin(AT_FDCWD, path, RECORD_MODE, &w, err);
    r = r < 0 ? r : files_write_add(&w, buf_sv(o->buf), err);
    return r < 0 ? r : files_write_commit(&w, err);
}

static struct protocol_out begin(struct buf *b) {
    struct protocol_out o = protocol_fields_begin(b);
    protocol_add_u64(&o, PROTOCOL_MAJOR_VERSION, PROTOCOL_MAJOR);
    protocol_add_u64(&o, PROTOCOL_MINOR_VERSION, PROTOCOL_MINOR);
    return o;
}

int record_write(const char *dir, uint64_t pid, const struct record_end *end, struct err *err) {
    AUTO_BUF struct buf b = {0};
    struct protocol_out o = begin(&b);
    protocol_add_u64(&o, PROTOCOL_PID, pid);
    if (end) {
        protocol_add_u64(&o, PROTOCOL_EXIT_CODE, (uint64_t)end->exit_code);
        protocol_add_u64(&o, PROTOCOL_TIMED_OUT, end->is_timed_out);
    }
    return put(dir, &o, err);
}

void record_write_failure(const char *dir, const struct err *failed) {
    AUTO_BUF struct buf b = {0};
    struct err ignored = {0};
    struct protocol_out o = begin(&b);
    protocol_add_u64(&o, PROTOCOL_CODE, (uint64_t)-failed->code);
    protocol_add(&o, PROTOCOL_MESSAGE, sv_from(failed->msg));
    if (put(dir, &o, &ignored) < 0) {
        ignored.code = 0; /* Then no record tells that it did not run. */
    }
}

int record_read_file(const char *path, size_t max, struct buf *out, struct err *err) {
    uint64_t size;
    AUTO_CLOSE int fd = -1;
    int r = files_open_read(AT_FDCWD, path, &fd, &size, err);
    if (r < 0) {
        return r;
    }
    if (size > max) {
        return err_set(err, ERR_LIMIT, "'%s' has more than %zu bytes", path, max);
    }
    ssize_t n = 1;
    while (n > 0 && out->len < size) {
        if (buf_reserve(out, size - out->len) < 0) {
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        n = read(fd, out->data + out->len, size - out->len);
        out->len += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? err_sys(err, ERR_SYS, errno, "cannot read '%s'", path) : 0;
}

int record_read(const char *dir, struct buf *out, struct err *err) {
    AUTO_FREE char *path = record_path(dir, "exit");
    if (!path) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = record_read_file(path, RECORD_MAX, out, err);
    return r == ERR_NOT_FOUND ? 0 : r < 0 ? r : protocol_check(buf_sv(out), err);
}

bool record_is_final(struct sv fields) {
    struct sv value;
    return protocol_find(fields, PROTOCOL_EXIT_CODE, &value) ||
           protocol_find(fields, PROTOCOL_CODE, &value);
}
