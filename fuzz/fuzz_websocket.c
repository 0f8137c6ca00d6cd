/* SPDX-License-Identifier: BSD-3-Clause */
/* Any cutting of a client's bytes gives the same messages and, until it ends, the same answers. How
 * it ends may differ: pongs that are due with a close are left out, of two faults in one frame
 * either is told, and a bad close is seen at once or when it is whole. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/websocket_codec.h"

#define MESSAGE_MAX 4096

struct seen {
    struct buf texts;
    struct buf sent;
    bool over;
};

static void on_text(struct sv text, void *arg) {
    struct seen *seen = arg;
    BUG_IF(text.n > MESSAGE_MAX);
    BUG_IF(buf_addf(&seen->texts, "[%zu]", text.n) < 0 || buf_add_sv(&seen->texts, text) < 0);
}

/* Only control frames are sent here: each is short. */
static bool ends_with_close(struct sv out) {
    bool is_close = false;
    for (size_t n = 0; out.n > 0; out = sv_cut(out, n)) {
        BUG_IF(is_close || out.n < 2 || out.p[1] < 0 || out.p[1] > 125);
        is_close = (unsigned char)out.p[0] == 0x88;
        n = 2 + (size_t)out.p[1];
        BUG_IF(n > out.n);
    }
    return is_close;
}

static void run(struct sv in, size_t step, struct seen *seen) {
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
    seen->over = websocket_codec_is_over(c);
    BUG_IF(websocket_codec_may_send(c) == seen->over);
    BUG_IF(ends_with_close(buf_sv(websocket_codec_out(c))) != seen->over);
    BUG_IF(buf_add_sv(&seen->sent, buf_sv(websocket_codec_out(c))) < 0);
    websocket_codec_free(c);
}

static void forget(struct seen *seen) {
    buf_deinit(&seen->texts);
    buf_deinit(&seen->sent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sv in = {(const char *)data, size};
    struct seen whole = {0};
    run(in, size + 1, &whole);
    for (size_t step = 1; step < 20; step += 3) {
        struct seen cut = {0};
        run(in, step, &cut);
        BUG_IF(!sv_eq(buf_sv(&cut.texts), buf_sv(&whole.texts)));
        BUG_IF(!cut.over && !whole.over && !sv_eq(buf_sv(&cut.sent), buf_sv(&whole.sent)));
        forget(&cut);
    }
    forget(&whole);
    return 0;
}
