/* SPDX-License-Identifier: BSD-3-Clause */
/* Any cutting of a stream gives the same events, and their raw bytes in order are the stream. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/sse.h"

static void note(const struct sse_event *e, struct buf *raw, struct buf *out) {
    BUG_IF(buf_add_sv(raw, e->raw) < 0);
    BUG_IF(buf_addf(out, "\n[%zu %d%d%d %lld] ", e->raw.n, e->has_data, e->has_id, e->whole,
                    e->retry_ms) < 0);
    BUG_IF(buf_add_sv(out, e->type) < 0 || buf_addc(out, '|') < 0 || buf_add_sv(out, e->id) < 0 ||
           buf_addc(out, '|') < 0 || buf_add_sv(out, e->data) < 0);
}

static void run(struct sv in, size_t step, struct buf *raw, struct buf *out) {
    struct sse s = {0};
    struct sse_event e;
    for (; in.n > 0; in = sv_cut(in, step)) {
        size_t n = in.n < step ? in.n : step;
        char *copy = malloc(n);
        BUG_IF(!copy);
        memcpy(copy, in.p, n);
        struct sv piece = {copy, n};
        size_t used = 0;
        for (; sse_feed(&s, piece, &used, &e, NULL) > 0; piece = sv_cut(piece, used)) {
            note(&e, raw, out);
        }
        BUG_IF(used != piece.n);
        free(copy);
    }
    if (sse_finish(&s, &e, NULL) > 0) {
        note(&e, raw, out);
    }
    sse_deinit(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv in = {(const char *)data, size};
    AUTO_BUF struct buf unused = {0};
    AUTO_BUF struct buf whole = {0};
    run(in, size + 1, &unused, &whole);
    for (size_t step = 1; step < 20; step += 3) {
        AUTO_BUF struct buf raw = {0};
        AUTO_BUF struct buf cut = {0};
        run(in, step, &raw, &cut);
        BUG_IF(!sv_eq(buf_sv(&raw), in) || !sv_eq(buf_sv(&cut), buf_sv(&whole)));
    }
    return 0;
}
