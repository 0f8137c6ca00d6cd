/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "journal/trace.h"
#include "journal/trace_zst.h"

#define PIECE 65536 /* One read; what most file systems read ahead. */
#define PACKED ".zst"

struct lines {
    const char *path;
    trace_line_fn line;
    void *arg;
    struct buf rest; /* A line that has not ended yet. */
};

/* Gives the lines that end in `bytes`, and keeps what is behind the last. */
static int take_bytes(void *arg, struct sv bytes, struct err *err) {
    struct lines *l = arg;
    int r = 0;
    while (bytes.n > 0 && r >= 0) {
        const char *feed = memchr(bytes.p, '\n', bytes.n);
        size_t n = feed ? (size_t)(feed - bytes.p) : bytes.n;
        struct sv line = {bytes.p, n};
        if (!feed || l->rest.len > 0) {
            r = buf_add_sv(&l->rest, line);
            if (r < 0) {
                return err_set(err, r, "a line of '%s' is longer than %u MiB", l->path,
                               TRACE_LINE_MAX >> 20);
            }
            line = buf_sv(&l->rest);
        }
        if (feed) {
            r = line.n > 0 ? l->line(l->arg, line, err) : 0;
            buf_reset(&l->rest);
        }
        bytes = sv_cut(bytes, n + (feed != NULL));
    }
    return r;
}

static ssize_t read_piece(int fd, char *piece, const char *path, struct err *err) {
    for (;;) {
        ssize_t n = read(fd, piece, PIECE);
        if (n >= 0) {
            return n;
        }
        if (errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot read '%s'", path);
        }
    }
}

static int read_all(int fd, struct lines *l, struct err *err) {
    AUTO_FREE char *piece = malloc(PIECE);
    struct trace_unzst *u = NULL;
    if (!piece) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    ssize_t n = read_piece(fd, piece, l->path, err);
    int r = n < 0 ? (int)n : 0;
    if (n > 0 && trace_zst_is((struct sv){piece, (size_t)n})) {
        r = trace_unzst_new(&u, err);
    }
    while (r >= 0 && n > 0) {
        struct sv bytes = {piece, (size_t)n};
        r = u ? trace_unzst_feed(u, bytes, take_bytes, l, err) : take_bytes(l, bytes, err);
        n = r < 0 ? 0 : read_piece(fd, piece, l->path, err);
        r = n < 0 ? (int)n : r;
    }
    if (r >= 0 && u && !trace_unzst_whole(u)) {
        r = err_set(err, ERR_CORRUPT, "'%s' is cut short", l->path);
    }
    trace_unzst_free(u);
    if (r >= 0 && l->rest.len > 0) {
        r = l->line(l->arg, buf_sv(&l->rest), err);
    }
    return r < 0 ? r : 0;
}

/* The other kind of the same trace; the caller frees. */
static char *other_kind(const char *path) {
    struct sv v = sv_from(path);
    return sv_ends_with(v, SV(PACKED)) ? mem_strndup(v.p, v.n - strlen(PACKED))
                                       : mem_printf("%s" PACKED, path);
}

int trace_read(const char *path, trace_line_fn line, void *arg, struct err *err) {
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    AUTO_FREE char *first = folder ? file_join(path, "trace.jsonl") : mem_strdup(path);
    AUTO_FREE char *second = first ? other_kind(first) : NULL;
    if (!second) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_CLOSE int fd = open(first, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        fd = open(second, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) {
        return err_sys(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, errno, "cannot open '%s'",
                       first);
    }
    struct lines l = {.path = path, .line = line, .arg = arg, .rest = {.limit = TRACE_LINE_MAX}};
    int r = read_all(fd, &l, err);
    buf_deinit(&l.rest);
    return r;
}
