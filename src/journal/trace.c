/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace.h"

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

/* Takes a line. */
typedef int (*sink_fn)(void *arg, struct sv line, struct err *err);

struct work {
    const struct trace_source *from;
    struct journal_reader *reader;
    struct trace_index index;
    struct trace_loaded loaded;
    struct buf line;
    struct trace_summary summary;
};

static void work_deinit(struct work *w) {
    journal_reader_close(w->reader);
    trace_index_deinit(&w->index);
    trace_loaded_deinit(&w->loaded);
    buf_deinit(&w->line);
}

static int write_lines(struct work *w, sink_fn sink, void *arg, struct err *err) {
    int r = 0;
    for (size_t i = 0; i < w->index.n && r == 0; i++) {
        const struct trace_entry *e = &w->index.entries[i];
        buf_reset(&w->line);
        r = trace_load(w->reader, e, &w->loaded, err);
        r = r < 0 ? r : trace_add_line(w->from, &w->index, e, &w->loaded, &w->line, err);
        r = r < 0 ? r : sink(arg, buf_sv(&w->line), err);
        w->summary.calls++;
        w->summary.open += !e->has_result;
        w->summary.plain_bytes += w->line.len;
    }
    return r;
}

static int open_reader(const struct trace_source *from, struct journal_reader **out,
                       struct err *err) {
    struct sv session = sv_from(from->session);
    int r = from->journal ? journal_reader_own(from->journal, session, out, err) : 0;
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    r = journal_reader_open(from->journal_dir, out, err);
    return r < 0 ? r : journal_reader_only(*out, session, err);
}

static int trace(const struct trace_source *from, sink_fn sink, void *arg,
                 struct trace_summary *summary, struct err *err) {
    struct work w = {.from = from};
    int r = open_reader(from, &w.reader, err);
    r = r < 0 ? r : trace_index_read(w.reader, &w.index, err);
    r = r < 0 ? r : write_lines(&w, sink, arg, err);
    if (r == 0) {
        w.summary.torn = journal_reader_torn(w.reader);
        *summary = w.summary;
    }
    work_deinit(&w);
    return r;
}

static int to_buf(void *arg, struct sv line, struct err *err) {
    int r = buf_add_sv(arg, line);
    return r < 0 ? err_set(err, r, "the trace is too large to be held") : 0;
}

int trace_to_buf(const struct trace_source *from, struct buf *out, struct trace_summary *summary,
                 struct err *err) {
    struct trace_summary own = {0};
    return trace(from, to_buf, out, summary ? summary : &own, err);
}

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
    int r = trace(from, to_file, &out, summary, err);
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
    return r;
}
