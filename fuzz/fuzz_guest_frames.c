/* SPDX-License-Identifier: BSD-3-Clause */
/* Any cutting of a stream gives the same frames, and written again they are the stream. */
#include <stdint.h>

#include "guest/protocol.h"

/* Writes every frame again; 1 when the stream turned out to be none. */
static int take_frames(struct protocol_in *in, struct buf *out) {
    struct protocol_frame f;
    int r;
    while ((r = protocol_next(in, &f, NULL)) > 0) {
        struct protocol_out o = protocol_begin(out, f.type, f.id);
        uint8_t tag;
        struct sv value;
        while (protocol_each(&f.fields, &tag, &value)) {
            protocol_add(&o, tag, value);
        }
        BUG_IF(protocol_end(&o) < 0);
    }
    return r < 0;
}

static int run(struct sv in, size_t step, struct buf *out) {
    struct protocol_in p = {0};
    int refused = 0;
    for (; in.n > 0 && !refused; in = sv_cut(in, step)) {
        BUG_IF(protocol_feed(&p, in.p, in.n < step ? in.n : step) < 0);
        refused = take_frames(&p, out);
    }
    protocol_in_deinit(&p);
    return refused;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv in = {(const char *)data, size};
    struct buf whole = {0};
    int refused = run(in, size + 1, &whole);
    BUG_IF(!sv_starts_with(in, buf_sv(&whole)));
    for (size_t step = 1; step < 20; step += 3) {
        struct buf cut = {0};
        BUG_IF(run(in, step, &cut) != refused || !sv_eq(buf_sv(&cut), buf_sv(&whole)));
        buf_deinit(&cut);
    }
    buf_deinit(&whole);
    return 0;
}
