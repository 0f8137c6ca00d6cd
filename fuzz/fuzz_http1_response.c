/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers one after another, heads and bodies to the end of the stream: any cutting of the bytes
 * gives the same. */
#include "fuzz/http1_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) {
        return 0;
    }
    struct sv in = {(const char *)data + 1, size - 1};
    AUTO_BUF struct buf whole = {0};
    AUTO_BUF struct buf cut = {0};
    http1_trace(HTTP1_RESPONSE, in, in.n + 1, &whole);
    http1_trace(HTTP1_RESPONSE, in, 1, &cut);
    BUG_IF(!sv_eq(buf_sv(&whole), buf_sv(&cut)));
    buf_reset(&cut);
    http1_trace(HTTP1_RESPONSE, in, (size_t)data[0] + 1, &cut);
    BUG_IF(!sv_eq(buf_sv(&whole), buf_sv(&cut)));
    return 0;
}
