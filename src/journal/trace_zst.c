/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace_zst.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define LEVEL 3       /* zstd's own default: the window does the work. */
#define WINDOW_LOG 27 /* 128 MiB, the most that the zstd tool opens unasked. */
#define PIECE 131072  /* What zstd reads and writes at once. */

/* One at a time: a compressor holds as much memory as the window or the file has. */
static pthread_mutex_t packing = PTHREAD_MUTEX_INITIALIZER;

bool trace_zst_is(struct sv start) {
    return sv_starts_with(start, SV("\x28\xb5\x2f\xfd"));
}

static int pack_failed(const char *path, struct err *err) {
    int e = errno;
    return err_sys(err, e == ENOSPC || e == EDQUOT || e == EFBIG ? ERR_FULL : ERR_SYS, e,
                   "cannot write '%s'", path);
}

/* Puts one piece through the compressor, and all that comes out into `to`. */
static int pack_piece(ZSTD_CCtx *z, ZSTD_inBuffer *in, bool last, int to, char *room,
                      const char *path, struct err *err) {
    for (;;) {
        ZSTD_outBuffer out = {room, PIECE, 0};
        size_t left = ZSTD_compressStream2(z, &out, in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left)) {
            return err_set(err, ERR_INTERNAL, "cannot compress '%s': %s", path,
                           ZSTD_getErrorName(left));
        }
        int r = fd_write_all(to, room, out.pos, DEADLINE_NEVER, NULL, err);
        if (r < 0) {
            return err_wrap(err, "cannot write '%s'", path);
        }
        if (last ? left == 0 : in->pos == in->size) {
            return 0;
        }
    }
}

static int pack(int from, int to, const char *path, struct err *err) {
    struct stat st;
    AUTO_FREE char *room = malloc(2 * PIECE);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    if (!room || !z || fstat(from, &st) < 0) {
        ZSTD_freeCCtx(z);
        return err_set(err, ERR_NOMEM, "no memory to compress '%s'", path);
    }
    ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, WINDOW_LOG);
    ZSTD_CCtx_setParameter(z, ZSTD_c_enableLongDistanceMatching, 1);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setPledgedSrcSize(z, (unsigned long long)st.st_size);
    int r = 0;
    ssize_t n;
    do {
        n = read(from, room, PIECE);
        if (n < 0 && errno != EINTR) {
            r = err_sys(err, ERR_SYS, errno, "cannot compress '%s'", path);
        } else if (n >= 0) {
            ZSTD_inBuffer in = {room, (size_t)n, 0};
            r = pack_piece(z, &in, n == 0, to, room + PIECE, path, err);
        }
    } while (r == 0 && n != 0);
    ZSTD_freeCCtx(z);
    return r;
}

int trace_zst_pack(const char *from, const char *to, struct err *err) {
    AUTO_FREE char *part = mem_printf("%s.XXXXXX", to);
    if (!part) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    AUTO_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
    AUTO_CLOSE int out = in < 0 ? -1 : mkostemp(part, O_CLOEXEC);
    if (out < 0) {
        return pack_failed(to, err);
    }
    pthread_mutex_lock(&packing);
    int r = pack(in, out, to, err);
    pthread_mutex_unlock(&packing);
    if (r == 0 && (fchmod(out, 0644) < 0 || fsync(out) < 0 || rename(part, to) < 0)) {
        r = pack_failed(to, err);
    }
    if (r < 0) {
        unlink(part);
    }
    return r;
}

struct trace_unzst {
    ZSTD_DCtx *z;
    bool in_frame;
    char room[PIECE];
};

int trace_unzst_new(struct trace_unzst **out, struct err *err) {
    struct trace_unzst *u = calloc(1, sizeof *u);
    if (u) {
        u->z = ZSTD_createDCtx();
    }
    if (!u || !u->z) {
        free(u);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    ZSTD_DCtx_setParameter(u->z, ZSTD_d_windowLogMax, WINDOW_LOG);
    *out = u;
    return 0;
}

int trace_unzst_feed(struct trace_unzst *u, struct sv bytes,
                     int (*take)(void *arg, struct sv bytes, struct err *err), void *arg,
                     struct err *err) {
    ZSTD_inBuffer in = {bytes.p, bytes.n, 0};
    bool more = true; /* Something may still be waiting inside. */
    while (in.pos < in.size || more) {
        ZSTD_outBuffer out = {u->room, sizeof u->room, 0};
        size_t hint = ZSTD_decompressStream(u->z, &out, &in);
        if (ZSTD_isError(hint)) {
            return err_set(err, ERR_CORRUPT, "damaged compression: %s", ZSTD_getErrorName(hint));
        }
        u->in_frame = hint != 0;
        more = out.pos == out.size;
        int r = out.pos > 0 ? take(arg, (struct sv){u->room, out.pos}, err) : 0;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

bool trace_unzst_whole(const struct trace_unzst *u) {
    return !u->in_frame;
}

void trace_unzst_free(struct trace_unzst *u) {
    if (u) {
        ZSTD_freeDCtx(u->z);
        free(u);
    }
}
