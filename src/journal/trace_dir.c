/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "journal/trace_line.h"
#include "journal/trace_zst.h"

struct out_file {
    FILE *file;
    const char *path;
};

static int write_failed(const char *path, struct err *err) {
    int e = errno;
    return err_sys(err, e == ENOSPC || e == EDQUOT || e == EFBIG ? ERR_FULL : ERR_SYS, e,
                   "cannot write '%s'", path);
}

static int to_file(void *arg, struct sv line, struct err *err) {
    const struct out_file *out = arg;
    return fwrite(line.p, 1, line.n, out->file) == line.n ? 0 : write_failed(out->path, err);
}

/* Writes the lines to the fresh file `part`. */
static int write_part(const struct trace_source *from, char *part, struct trace_summary *summary,
                      struct err *err) {
    int fd = mkostemp(part, O_CLOEXEC);
    struct out_file out = {fd < 0 ? NULL : fdopen(fd, "w"), part};
    if (!out.file || fchmod(fd, 0644) < 0) {
        int r = write_failed(part, err);
        if (out.file) {
            fclose(out.file);
        } else if (fd >= 0) {
            close(fd);
        }
        return r;
    }
    int r = trace_lines(from, to_file, &out, summary, err);
    /* One that is compressed is read again, and synced in its own place. */
    if (r == 0 && (fflush(out.file) != 0 ||
                   (summary->plain_bytes <= TRACE_PLAIN_MAX && fsync(fileno(out.file)) < 0))) {
        r = write_failed(part, err);
    }
    if (fclose(out.file) != 0 && r == 0) {
        r = write_failed(part, err);
    }
    return r;
}

/* Puts the written part in its place: as it is, or compressed. The other kind goes. */
static int place_part(const char *part, const char *plain, const char *packed, bool large,
                      struct err *err) {
    if (large) {
        int r = trace_zst_pack(part, packed, err);
        if (r < 0) {
            return r;
        }
        unlink(part);
    } else if (rename(part, plain) < 0) {
        return write_failed(plain, err);
    }
    if (unlink(large ? plain : packed) < 0 && errno != ENOENT) {
        return write_failed(large ? plain : packed, err);
    }
    return 0;
}

static int sync_folder(const char *dir, struct err *err) {
    AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? write_failed(dir, err) : 0;
}

int trace_to_dir(const struct trace_source *from, const char *dir, struct trace_summary *summary,
                 struct err *err) {
    struct trace_summary own = {0};
    summary = summary ? summary : &own;
    AUTO_FREE char *plain = file_join(dir, "trace.jsonl");
    AUTO_FREE char *packed = file_join(dir, "trace.jsonl.zst");
    AUTO_FREE char *part = plain ? mem_printf("%s.XXXXXX", plain) : NULL;
    if (!packed || !part) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int r = write_part(from, part, summary, err);
    r = r < 0 ? r : place_part(part, plain, packed, summary->plain_bytes > TRACE_PLAIN_MAX, err);
    if (r < 0) {
        unlink(part);
    }
    return r < 0 ? r : sync_folder(dir, err);
}
