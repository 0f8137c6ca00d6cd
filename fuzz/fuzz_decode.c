/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes in any coding: what comes out, and the verdict, do not hang on where they are cut; no
 * more comes out than may. The first byte names the coding. */
#include <stdint.h>
#include <stdio.h>

#include "gateway/decode.h"

#define MOST 200000u

static int add(void *out, struct sv plain, struct err *err) {
    (void)err;
    return buf_add_sv(out, plain);
}

static int run(const char *coding, struct sv in, size_t cut, struct buf *out) {
    char line[64];
    uint32_t n = (uint32_t)snprintf(line, sizeof line, "Content-Encoding: %s\r\n", coding);
    struct http1_head head = {.raw = {line, n}, .n_fields = 1, .fields = {{0, n, 16, 18, n - 20}}};
    struct decode *d;
    BUG_IF(decode_new(&head, MOST, &d, NULL) != 1);
    int rc = decode_feed(d, (struct sv){in.p, cut}, add, out, NULL);
    rc = rc < 0 ? rc : decode_feed(d, sv_cut(in, cut), add, out, NULL);
    rc = rc < 0 ? rc : decode_end(d, NULL);
    decode_free(d);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const codings[] = {"gzip", "deflate", "br", "zstd", "gzip, zstd"};
    AUTO_BUF struct buf whole = {0};
    AUTO_BUF struct buf cut = {0};
    if (size < 2) {
        return 0;
    }
    const char *coding = codings[data[0] % 5];
    struct sv in = {(const char *)data + 1, size - 1};
    int rc = run(coding, in, 0, &whole);
    BUG_IF(whole.len > MOST);
    BUG_IF(run(coding, in, data[1] % in.n, &cut) != rc);
    BUG_IF(rc == 0 && !sv_eq(buf_sv(&whole), buf_sv(&cut)));
    return 0;
}
