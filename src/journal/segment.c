/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "journal/format.h"

static int failed(const struct segment *s, int errnum, const char *what, struct err *err) {
    bool full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
    return err_sys(err, full ? ERR_FULL : ERR_SYS, errnum, "cannot %s the journal '%s'", what,
                   s->boot->path);
}

void segment_end(struct segment *s) {
    if (s->fd >= 0) {
        close(s->fd);
    }
    s->fd = -1;
}

static int write_header(struct segment *s, struct err *err) {
    AUTO_BUF struct buf header = {0};
    if (format_add_segment_header(s->boot->name, &header) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    size_t at = 0;
    while (at < header.len) {
        ssize_t n = pwrite(s->fd, header.data + at, header.len - at, (off_t)at);
        if (n < 0 && errno != EINTR) {
            return failed(s, errno, "write", err);
        }
        at += n > 0 ? (size_t)n : 0;
    }
    if (s->durable && (fsync(s->fd) < 0 || fsync(s->boot->fd) < 0)) {
        return failed(s, errno, "sync", err);
    }
    s->bytes = header.len;
    return 0;
}

struct segment_name {
    char text[32];
};

static struct segment_name name_of(unsigned number) {
    struct segment_name name;
    (void)snprintf(name.text, sizeof name.text, "%06u.log", number);
    return name;
}

void segment_remove(const struct boot *boot, unsigned number) {
    (void)unlinkat(boot->fd, name_of(number).text, 0); /* What stays is found by the next sweep. */
}

int segment_begin(struct segment *s, struct err *err) {
    segment_end(s);
    const struct segment_name file = name_of(s->number + 1);
    const char *name = file.text;
    s->fd = openat(s->boot->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0) {
        return failed(s, errno, "begin a segment of", err);
    }
    int r = write_header(s, err);
    if (r < 0) {
        segment_end(s);
        unlinkat(s->boot->fd, name, 0); /* Else each try on a full disk would leave one. */
        return r;
    }
    s->number++;
    return 0;
}

bool segment_fits(const struct segment *s, uint64_t n) {
    return s->fd >= 0 && s->bytes < s->bytes_max && n <= s->bytes_max - s->bytes;
}

/* The spans that are left once some bytes of them are written. */
static void advance(struct segment_batch *left, size_t written) {
    while (left->n_spans > 0 && written >= left->spans->iov_len) {
        written -= left->spans->iov_len;
        left->spans++;
        left->n_spans--;
    }
    if (left->n_spans > 0) {
        left->spans->iov_base = (char *)left->spans->iov_base + written;
        left->spans->iov_len -= written;
    }
}

static unsigned count_whole(const struct segment_batch *batch, uint64_t written) {
    unsigned whole = 0;
    while (whole < batch->n && batch->ends[whole] <= written) {
        whole++;
    }
    return whole;
}

/* Cuts off a record that is there in part only. Where that fails no more is written behind it. */
static void cut_back(struct segment *s) {
    if (ftruncate(s->fd, (off_t)s->bytes) < 0) {
        segment_end(s);
    }
}

/* What a failed sync leaves on the disk is not known: then none of the batch counts. */
static int sync_batch(struct segment *s, unsigned *whole, int r, struct err *err) {
    if (s->fd >= 0 && fdatasync(s->fd) == 0) {
        return r;
    }
    r = s->fd >= 0 ? failed(s, errno, "sync", err) : r;
    *whole = 0;
    segment_end(s);
    return r;
}

int segment_write(struct segment *s, const struct segment_batch *batch, unsigned *whole,
                  struct err *err) {
    struct segment_batch left = *batch;
    uint64_t written = 0;
    int r = 0;
    while (left.n_spans > 0 && r == 0) {
        int n = (int)(left.n_spans < IOV_MAX ? left.n_spans : IOV_MAX);
        ssize_t got = pwritev(s->fd, left.spans, n, (off_t)(s->bytes + written));
        if (got > 0) {
            advance(&left, (size_t)got);
            written += (uint64_t)got;
        } else if (got == 0 || errno != EINTR) {
            r = failed(s, got == 0 ? EIO : errno, "write", err);
        }
    }
    *whole = count_whole(batch, written);
    s->bytes += *whole > 0 ? batch->ends[*whole - 1] : 0;
    if (r < 0) {
        cut_back(s);
    }
    return s->durable && *whole > 0 ? sync_batch(s, whole, r, err) : r;
}
