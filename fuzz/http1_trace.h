/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_FUZZ_HTTP1_TRACE_H
#define SNAFFLE_FUZZ_HTTP1_TRACE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http1.h"

/* Feeds `in` in steps of `step` bytes and writes down what the codec made of it: heads, fields,
 * payload, ends and refusals. Each step is an allocation of its own, so that a view that outlives
 * it is seen. */

static void trace_add(struct buf *out, const char *what, struct sv v) {
    BUG_IF(buf_addf(out, "\n%s ", what) < 0 || buf_add_sv(out, v) < 0);
}

static void trace_head(const struct http1_head *h, struct buf *out) {
    BUG_IF(buf_addf(out, "\nhead %d %d %d%d%d%d%d%d %llu", h->status, h->minor, h->has_length,
                    h->chunked, h->expect_continue, h->connection_close, h->connection_keep_alive,
                    h->upgrade, (unsigned long long)h->content_length) < 0);
    trace_add(out, "method", h->method);
    trace_add(out, "target", h->target);
    trace_add(out, "path", http1_target_path(h));
    trace_add(out, "reason", h->reason);
    size_t lines = h->start_line.n + 2;
    for (size_t i = 0; i < h->n_fields; i++) {
        trace_add(out, "name", http1_name(h, i));
        trace_add(out, "value", http1_value(h, i));
        lines += http1_line(h, i).n;
    }
    BUG_IF(lines != h->raw.n); /* The lines are the head, byte for byte. */
}

struct trace {
    struct http1_head_parser parser;
    struct http1_body body;
    bool in_body;
    bool in_span; /* Spans of one body are joined: where they are cut depends on the steps. */
    bool stopped;
};

static size_t trace_body(struct trace *t, struct sv in, struct buf *out) {
    struct err err = {0};
    size_t used = 0;
    struct sv span;
    uint64_t before = t->body.payload_bytes;
    int r = http1_body_next(&t->body, in, &used, &span, &err);
    BUG_IF(used > in.n || t->body.payload_bytes != before + span.n);
    if (r == HTTP1_DATA) {
        BUG_IF(span.n == 0 || span.p < in.p || span.p + span.n != in.p + used);
        BUG_IF((!t->in_span && buf_adds(out, "\ndata ") < 0) || buf_add_sv(out, span) < 0);
        t->in_span = true;
    } else if (r == HTTP1_END) {
        trace_add(out, "end", (struct sv){0});
        t->in_body = false;
    } else if (r < 0) {
        trace_add(out, "refused", sv_from(err.msg));
        t->stopped = true;
    } else {
        BUG_IF(used != in.n);
    }
    return used;
}

static size_t trace_start(struct trace *t, struct sv in, struct buf *out) {
    static struct http1_head head;
    struct err err = {0};
    size_t used = 0;
    int r = http1_head_feed(&t->parser, in, &used, &head, &err);
    BUG_IF(used > in.n);
    if (r < 0) {
        BUG_IF(t->parser.refuse_status < 400);
        trace_add(out, "refused", sv_from(err.msg));
        t->stopped = true;
    } else if (r > 0) {
        trace_head(&head, out);
        if (t->parser.kind == HTTP1_REQUEST) {
            http1_body_of_request(&t->body, &head);
        } else {
            http1_body_of_response(&t->body, &head, false);
        }
        t->in_body = true;
        t->in_span = false;
    } else {
        BUG_IF(used != in.n);
    }
    return used;
}

static void http1_trace(enum http1_kind kind, struct sv in, size_t step, struct buf *out) {
    struct trace t = {.parser = {.kind = kind}};
    while (in.n > 0 && !t.stopped) {
        size_t n = in.n < step ? in.n : step;
        char *copy = malloc(n);
        BUG_IF(!copy);
        memcpy(copy, in.p, n);
        struct sv piece = {copy, n};
        /* A body that ends says so without a further byte. */
        while ((piece.n > 0 || t.in_body) && !t.stopped) {
            size_t used = t.in_body ? trace_body(&t, piece, out) : trace_start(&t, piece, out);
            if (used == 0 && piece.n == 0 && t.in_body) {
                break;
            }
            piece = sv_cut(piece, used);
        }
        free(copy);
        in = sv_cut(in, n);
    }
    struct err err = {0};
    if (t.in_body && !t.stopped && http1_body_eof(&t.body, false, &err) < 0) {
        trace_add(out, "cut", sv_from(err.msg));
    }
    http1_head_parser_deinit(&t.parser);
}

#endif
