/* SPDX-License-Identifier: BSD-3-Clause */
/* An event whose data stands on several lines: edits of the joined data are made in the lines. */
#include "gateway/call.h"
#include "net/sse_event.h"

struct walk {
    struct buf *out;
    const char *kept;               /* Copied up to here. */
    const struct splice_edit *edit; /* The next one. */
    const struct splice_edit *end;
    size_t cut_to; /* A cut that goes on in a further line ends here, in the joined data. */
    bool is_cutting;
    bool is_split; /* Within that cut another field stands, which stays on a line of its own. */
};

/* A cut from an earlier line ends in this one, or takes all of it. */
static int end_cut(struct walk *w, struct sv value, size_t at) {
    bool ends = w->cut_to <= at + value.n;
    int rc = w->is_split ? buf_add(w->out, w->kept, (size_t)(value.p - w->kept)) : 0;
    w->is_cutting = !ends;
    w->is_split = w->is_split && !ends;
    w->kept = ends ? value.p + (w->cut_to - at) : w->is_split ? value.p + value.n : w->kept;
    return rc;
}

/* Makes the edits that begin or end in the line whose value is data[at, at + value.n). A cut over a
 * line's end takes the line break and the next line's "data:" with it. */
static int edit_line(struct walk *w, struct sv value, const char *data, size_t at) {
    size_t line_end = at + value.n;
    int ended = w->is_cutting ? end_cut(w, value, at) : 0;
    if (ended < 0) {
        return ended;
    }
    while (!w->is_cutting && w->edit < w->end && (size_t)(w->edit->at - data) <= line_end) {
        size_t from = (size_t)(w->edit->at - data);
        const char *raw_from = value.p + (from - at);
        int rc = buf_add(w->out, w->kept, (size_t)(raw_from - w->kept));
        rc = rc < 0 ? rc : buf_add_sv(w->out, w->edit->put);
        if (rc < 0) {
            return rc;
        }
        w->cut_to = from + w->edit->cut;
        w->is_cutting = w->cut_to > line_end;
        w->kept = w->is_cutting ? raw_from : value.p + (w->cut_to - at);
        w->edit++;
    }
    return 0;
}

int call_edit_lines(const struct sse_event *event, const struct splice *edits, struct buf *out) {
    const char *end = event->raw.p + event->raw.n;
    struct walk w = {out, event->raw.p, edits->edits, edits->edits + edits->n, 0, false, false};
    const char *line_before = event->lines.p; /* Its end. */
    size_t at = 0;                            /* Of the line's value in the joined data. */
    int rc = 0;
    for (struct sv rest = event->lines; rc == 0 && rest.n > 0;) {
        size_t n = sse_find_line_end(rest.p, 0, rest.n);
        struct sse_event line = {0};
        rc = sse_parse_line((struct sv){rest.p, n}, NULL, &line, NULL);
        if (rc == 0 && line.has_data) {
            rc = edit_line(&w, line.data, event->data.p, at);
            at += line.data.n + 1;
        }
        if (w.is_cutting && !line.has_data && n > 0 && !w.is_split) {
            w.is_split = true;
            w.kept = line_before;
        }
        line_before = n > 0 ? rest.p + n : line_before;
        rest = sv_cut(rest, n + 1); /* An LF behind a CR makes an empty line, which is none. */
    }
    BUG_IF(rc == 0 && (w.is_cutting || w.edit < w.end || at != event->data.n + 1));
    return rc < 0 ? rc : buf_add(out, w.kept, (size_t)(end - w.kept));
}
