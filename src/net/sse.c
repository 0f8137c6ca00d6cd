/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/sse.h"

#include "net/sse_event.h"

/* How the line before the current one ended: it decides whether a CR that is the last byte so far
 * has to wait for its LF. */
enum { END_NONE, END_LF, END_CR, END_CRLF };

/*
 * Searches `v`, the unfinished event, for the blank line that ends it: its length, or 0.
 *
 * A blank line that ends in CR at the edge of the bytes: when the line before ended in CR LF, the
 * LF will come and belongs here. Otherwise the stream ends its lines in CR, and waiting would hold
 * the event until the next one.
 */
static size_t find_event_end(struct sse *s, struct sv v) {
    for (;;) {
        size_t at = sse_find_line_end(v.p, s->scanned, v.n);
        s->scanned = at;
        if (at == v.n) {
            return 0;
        }
        bool blank = at == s->line_at;
        bool is_cr = v.p[at] == '\r';
        if (blank && is_cr && s->last_end != END_CRLF) {
            return at + 1;
        }
        if (is_cr && at + 1 == v.n) {
            return 0; /* Its LF may follow. */
        }
        bool crlf = is_cr && v.p[at + 1] == '\n';
        size_t next = at + (crlf ? 2 : 1);
        if (blank) {
            return next;
        }
        if (s->n_lines++ == 0) {
            s->first_line_end = at;
        }
        s->last_end = crlf ? END_CRLF : is_cr ? END_CR : END_LF;
        s->line_at = next;
        s->scanned = next;
    }
}

/* Bytes at the front of an event that are no line of it: the byte order mark, or the LF whose CR
 * ended the event before. */
static size_t front_length(const struct sse *s, struct sv v) {
    if (!s->past_start && sv_starts_with(v, SV("\xef\xbb\xbf"))) {
        return 3;
    }
    return s->past_start && s->cr_before && v.n > 0 && v.p[0] == '\n' ? 1 : 0;
}

/* false while the front can't be told yet. */
static bool pass_front(struct sse *s, struct sv v) {
    if (s->front_known) {
        return true;
    }
    if (!s->past_start && v.n < 3 && sv_starts_with(SV("\xef\xbb\xbf"), v)) {
        return false;
    }
    s->front_n = front_length(s, v);
    s->front_known = true;
    s->line_at = s->front_n;
    s->scanned = s->front_n;
    return true;
}

static void start_next(struct sse *s, struct sv raw) {
    s->past_start = true;
    s->cr_before = raw.n > 0 && raw.p[raw.n - 1] == '\r';
    s->front_known = false;
    s->front_n = 0;
    s->line_at = 0;
    s->scanned = 0;
    s->n_lines = 0;
    s->last_end = END_NONE;
}

static int check_size(const struct sse *s, size_t n, struct err *err) {
    size_t max = s->event_max ? s->event_max : SSE_EVENT_MAX;
    if (n > max) {
        return err_set(err, ERR_LIMIT, "an event of the stream is larger than %zu bytes", max);
    }
    return 0;
}

static int hold(struct sse *s, struct sv v, struct err *err) {
    if (buf_add_sv(&s->carry, v) < 0) {
        return err_set(err, ERR_NOMEM, "no memory for an event of the stream");
    }
    return 0;
}

/* Nearly all events have one line, whose end is known: it is not searched again. */
static int parse(struct sse *s, struct sv raw, bool whole, struct sse_event *event,
                 struct err *err) {
    struct sv lines = sv_cut(raw, s->front_n);
    *event = (struct sse_event){.raw = raw, .lines = lines, .retry_ms = -1, .whole = whole};
    if (whole && s->n_lines == 1) {
        struct sv line = {raw.p + s->front_n, s->first_line_end - s->front_n};
        return sse_parse_line(line, &s->joined, event, err);
    }
    return sse_parse_event(lines, &s->joined, event, err);
}

static int give(struct sse *s, struct sv raw, bool whole, struct sse_event *event,
                struct err *err) {
    int r = check_size(s, raw.n, err);
    if (r == 0) {
        r = parse(s, raw, whole, event, err);
    }
    if (r < 0) {
        return r;
    }
    start_next(s, raw);
    return 1;
}

/* Looks for the end in carry and `in` together; only the bytes of this event are copied. */
static int feed_carried(struct sse *s, struct sv in, size_t *used, struct sse_event *event,
                        struct err *err) {
    size_t before = s->carry.len;
    /* Most tails end near: a first small step keeps the rest of a full read from being copied. */
    size_t step = 1024;
    for (size_t taken = 0; taken < in.n; step *= 4) {
        size_t n = in.n - taken < step ? in.n - taken : step;
        int r = hold(s, (struct sv){in.p + taken, n}, err);
        if (r < 0) {
            return r;
        }
        taken += n;
        struct sv v = buf_sv(&s->carry);
        size_t end = pass_front(s, v) ? find_event_end(s, v) : 0;
        if (end) {
            *used = end - before;
            s->carry.len = end;
            s->given = true;
            return give(s, buf_sv(&s->carry), true, event, err);
        }
        r = check_size(s, s->carry.len, err);
        if (r < 0) {
            return r;
        }
    }
    *used = in.n;
    return 0;
}

static void drop_given(struct sse *s) {
    if (s->given) {
        buf_reset(&s->carry);
        s->given = false;
    }
}

int sse_feed(struct sse *s, struct sv in, size_t *used, struct sse_event *event, struct err *err) {
    *used = 0;
    drop_given(s);
    if (in.n == 0) {
        return 0;
    }
    if (s->carry.len > 0) {
        return feed_carried(s, in, used, event, err);
    }
    size_t end = pass_front(s, in) ? find_event_end(s, in) : 0;
    if (end == 0) {
        *used = in.n;
        int r = check_size(s, in.n, err);
        return r < 0 ? r : hold(s, in, err);
    }
    *used = end;
    return give(s, (struct sv){in.p, end}, true, event, err);
}

int sse_finish(struct sse *s, struct sse_event *event, struct err *err) {
    drop_given(s);
    if (s->carry.len == 0) {
        return 0;
    }
    struct sv v = buf_sv(&s->carry);
    if (!s->front_known) { /* The stream ended inside what may have been a byte order mark. */
        s->front_n = front_length(s, v);
    }
    s->given = true;
    /* A blank line whose CR still waited for an LF is an end all the same; a late LF is no event.
     */
    bool blank = s->front_known && s->line_at + 1 == v.n && v.p[v.n - 1] == '\r';
    bool whole = blank || s->front_n == v.n;
    return give(s, v, whole, event, err);
}

bool sse_is_between(struct sse *s) {
    drop_given(s);
    return s->carry.len == 0 && s->past_start && !s->front_known && !s->cr_before;
}

void sse_pass(struct sse *s, struct sv raw) {
    start_next(s, raw);
}

size_t sse_held(const struct sse *s) {
    return s->given ? 0 : s->carry.len;
}

void sse_reset(struct sse *s) {
    buf_reset(&s->carry);
    buf_reset(&s->joined);
    s->given = false;
    start_next(s, (struct sv){0});
    s->past_start = false;
}

void sse_deinit(struct sse *s) {
    sse_reset(s);
    buf_deinit(&s->carry);
    buf_deinit(&s->joined);
}
