/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/trace.h"

#include "journal/trace_line.h"

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

static int write_lines(struct work *w, trace_line_fn sink, void *arg, struct err *err) {
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
    if (r < 0) {
        return r;
    }
    journal_reader_since(*out, from->since);
    return journal_reader_only(*out, session, err);
}

int trace_lines(const struct trace_source *from, trace_line_fn sink, void *arg,
                struct trace_summary *summary, struct err *err) {
    struct work w = {.from = from};
    int r = open_reader(from, &w.reader, err);
    r = r < 0 ? r : trace_index_read(w.reader, &w.index, err);
    r = r < 0 ? r : write_lines(&w, sink, arg, err);
    if (r == 0) {
        w.summary.torn = journal_reader_torn(w.reader);
        journal_reader_put_torn(w.reader, w.summary.torn_at, sizeof w.summary.torn_at);
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
    return trace_lines(from, to_buf, out, summary ? summary : &own, err);
}
