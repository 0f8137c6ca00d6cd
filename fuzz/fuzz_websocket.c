/* SPDX-License-Identifier: BSD-3-Clause */
/* Any cutting of a client's bytes gives the same messages and the same answers. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/websocket_codec.h"

#define MESSAGE_MAX 4096

static void on_text(struct sv text, void *arg) {
    struct buf *seen = arg;
    BUG_IF(text.n > MESSAGE_MAX);
    BUG_IF(buf_addf(seen, "[%zu]", text.n) < 0 || buf_add_sv(seen, text) < 0);
}

static void run(struct sv in, size_t step, struct buf *seen) {
    struct websocket_codec_options o = {
        .message_max = MESSAGE_MAX, .on_text = on_text, .arg = seen};
    struct websocket_codec *c = NULL;
    BUG_IF(websocket_codec_new(&o, &c, NULL) < 0);
    for (; in.n > 0; in = sv_cut(in, step)) {
        size_t n = in.n < step ? in.n : step;
        char *copy = malloc(n);
        BUG_IF(!copy);
        memcpy(copy, in.p, n);
        BUG_IF(websocket_codec_feed(c, (struct sv){copy, n}, NULL) < 0);
        free(copy);
    }
    BUG_IF(buf_addf(seen, "\n%d%d ", websocket_codec_is_over(c), websocket_codec_may_send(c)) < 0);
    BUG_IF(buf_add_sv(seen, buf_sv(websocket_codec_out(c))) < 0);
    websocket_codec_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv in = {(const char *)data, size};
    AUTO_BUF struct buf whole = {0};
    run(in, size + 1, &whole);
    for (size_t step = 1; step < 20; step += 3) {
        AUTO_BUF struct buf cut = {0};
        run(in, step, &cut);
        BUG_IF(!sv_eq(buf_sv(&cut), buf_sv(&whole)));
    }
    return 0;
}
