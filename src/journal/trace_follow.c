/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json_valid.h"
#include "base/mem.h"
#include "journal/trace_line.h"

struct trace_follow {
    struct trace_source from;
    struct journal_reader *reader;
    struct trace_index index; /* Of the calls that have no line yet. */
    struct trace_loaded loaded;
    struct buf lines; /* Made, but not all written. */
    char *path;
    int fd;
};

void trace_follow_close(struct trace_follow *f) {
    if (!f) {
        return;
    }
    journal_reader_close(f->reader);
    trace_index_deinit(&f->index);
    trace_loaded_deinit(&f->loaded);
    buf_deinit(&f->lines);
    if (f->fd >= 0) {
        close(f->fd);
    }
    free(f->path);
    free(f);
}

int trace_follow_open(const struct trace_source *from, const char *path, struct trace_follow **out,
                      struct err *err) {
    struct trace_follow *f = calloc(1, sizeof *f);
    if (!f) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    f->from = *from;
    f->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    f->path = mem_strdup(path);
    int rc = 0;
    if (f->fd < 0) {
        rc = err_sys(err, ERR_INPUT, errno, "cannot write the trace '%s'", path);
    } else if (!f->path) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    rc = rc < 0 ? rc : journal_reader_open(from->journal_dir, &f->reader, err);
    rc = rc < 0 ? rc : journal_reader_only(f->reader, sv_from(from->session), err);
    if (rc < 0) {
        trace_follow_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

/* What is left stays for the next time. */
static int write_lines(struct trace_follow *f, struct err *err) {
    while (f->lines.len > 0) {
        ssize_t n = write(f->fd, f->lines.data, f->lines.len);
        if (n < 0 && errno != EINTR) {
            int e = errno;
            return err_sys(err, e == ENOSPC || e == EDQUOT ? ERR_FULL : ERR_SYS, e,
                           "cannot write the trace '%s'", f->path);
        }
        buf_consume(&f->lines, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int add_line(struct trace_follow *f, size_t at, struct err *err) {
    const struct trace_entry *e = &f->index.entries[at];
    size_t before = f->lines.len;
    int rc = trace_load(f->reader, e, &f->loaded, err);
    rc = rc < 0 ? rc : trace_add_line(&f->from, &f->index, e, &f->loaded, &f->lines, err);
    if (rc < 0) {
        f->lines.len = before;
        return rc;
    }
    trace_index_remove(&f->index, at);
    return write_lines(f, err);
}

/* The record completes its call: a result, or the tail of one that was open. */
static bool completes(const struct journal_record *r) {
    return r->type == JOURNAL_TAIL ||
           (r->type == JOURNAL_RESULT && !sv_eq(json_raw_get(r->head, "tail_open"), SV("true")));
}

int trace_follow_step(struct trace_follow *f, struct err *err) {
    struct journal_record record;
    int rc = write_lines(f, err);
    while (rc == 0 && (rc = journal_reader_next(f->reader, &record, err)) == 1) {
        uint64_t call = record.call;
        bool whole = completes(&record);
        rc = trace_index_add(&f->index, &record, journal_reader_place(f->reader));
        if (rc < 0) {
            return err_set(err, rc, "out of memory");
        }
        size_t at = f->index.n;
        while (whole && at > 0 && f->index.entries[at - 1].call != call) {
            at--;
        }
        rc = whole && at > 0 ? add_line(f, at - 1, err) : 0;
    }
    return rc;
}

int trace_follow_end(struct trace_follow *f, struct err *err) {
    int rc = trace_follow_step(f, err);
    while (rc == 0 && f->index.n > 0) {
        rc = add_line(f, 0, err);
    }
    return rc;
}
