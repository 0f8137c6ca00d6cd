/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/sse_event.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

/* 16 bytes at a time, both line ends at once: two memchr runs would pass the bytes twice, and a
 * stream of lone CRs would make the search for LF quadratic. */
typedef unsigned char bytes16 __attribute__((vector_size(16)));

static inline bytes16 line_ends_at(const char *p) {
    bytes16 v;
    memcpy(&v, p, sizeof v);
    return (bytes16)((v == '\n') | (v == '\r'));
}

static inline bool any(bytes16 hits) {
    uint64_t half[2];
    memcpy(half, &hits, sizeof half);
    return half[0] | half[1];
}

size_t sse_find_line_end(const char *p, size_t from, size_t n) {
    size_t i = from;
    for (; i + 64 <= n; i += 64) {
        if (any(line_ends_at(p + i) | line_ends_at(p + i + 16) | line_ends_at(p + i + 32) |
                line_ends_at(p + i + 48))) {
            break;
        }
    }
    while (i + 16 <= n && !any(line_ends_at(p + i))) {
        i += 16;
    }
    while (i < n && p[i] != '\n' && p[i] != '\r') {
        i++;
    }
    return i;
}

/* Cuts the next line off `rest`, without its end. */
static bool next_line(struct sv *rest, struct sv *line) {
    if (rest->n == 0) {
        return false;
    }
    size_t end = sse_find_line_end(rest->p, 0, rest->n);
    bool crlf = end + 1 < rest->n && rest->p[end] == '\r' && rest->p[end + 1] == '\n';
    *line = (struct sv){rest->p, end};
    *rest = sv_cut(*rest, end + (crlf ? 2 : 1));
    return true;
}

static void split_field(struct sv line, struct sv *name, struct sv *value) {
    const char *colon = memchr(line.p, ':', line.n);
    size_t n = colon ? (size_t)(colon - line.p) : line.n;
    *name = (struct sv){line.p, n};
    *value = colon ? sv_cut(line, n + 1) : (struct sv){line.p + line.n, 0};
    if (value->n > 0 && value->p[0] == ' ') {
        *value = sv_cut(*value, 1);
    }
}

static int add_data(struct sse_event *out, struct sv value, struct buf *joined, struct err *err) {
    if (!out->has_data) {
        out->has_data = true;
        out->data = value;
        return 0;
    }
    BUG_IF(!joined); /* One line alone never comes here twice. */
    int r = 0;
    if (out->data.p != joined->data) { /* The second line: the first is still in place. */
        buf_reset(joined);
        r = buf_add_sv(joined, out->data);
    }
    r = r < 0 ? r : buf_addc(joined, '\n');
    r = r < 0 ? r : buf_add_sv(joined, value);
    if (r < 0) {
        return err_set(err, r, "no memory for an event of the stream");
    }
    out->data = buf_sv(joined);
    return 0;
}

int sse_parse_line(struct sv line, struct buf *joined, struct sse_event *out, struct err *err) {
    struct sv name;
    struct sv value;
    unsigned long long number = 0;
    split_field(line, &name, &value);
    if (sv_eq(name, SV("data"))) {
        return add_data(out, value, joined, err);
    }
    if (sv_eq(name, SV("event"))) {
        out->type = value;
    } else if (sv_eq(name, SV("id")) && (value.n == 0 || !memchr(value.p, 0, value.n))) {
        out->id = value;
        out->has_id = true;
    } else if (sv_eq(name, SV("retry")) && sv_parse_u64(value, LLONG_MAX, &number)) {
        out->retry_ms = (long long)number;
    }
    return 0;
}

int sse_parse_event(struct sv lines, struct buf *joined, struct sse_event *out, struct err *err) {
    struct sv line;
    while (next_line(&lines, &line)) {
        int r = line.n > 0 ? sse_parse_line(line, joined, out, err) : 0;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
