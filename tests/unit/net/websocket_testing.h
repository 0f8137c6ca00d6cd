/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_UNIT_NET_WEBSOCKET_TESTING_H
#define SNAFFLE_TESTS_UNIT_NET_WEBSOCKET_TESTING_H

/* A client's frames, masked as they have to be. */

#include "base/buf.h"
#include "tests/testing.h"

enum { WS_MORE = 0, WS_TEXT = 1, WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };
#define WS_FIN 0x80

static inline void ws_put_size(struct buf *out, size_t n, unsigned mask_bit) {
    unsigned bytes = n < 126 ? 0 : n <= UINT16_MAX ? 2 : 8;
    assert_int_equal(buf_addc(out, (char)(mask_bit | (bytes == 0   ? n
                                                      : bytes == 2 ? 126
                                                                   : 127))),
                     0);
    for (unsigned i = 0; i < bytes; i++) {
        assert_int_equal(buf_addc(out, (char)(n >> (8 * (bytes - 1 - i)))), 0);
    }
}

/* `first`: opcode, with WS_FIN in a last frame. */
static inline void ws_put(struct buf *out, unsigned first, struct sv payload) {
    static const char mask[] = {'m', 'A', 's', 'K'};
    assert_int_equal(buf_addc(out, (char)first), 0);
    ws_put_size(out, payload.n, 0x80);
    assert_int_equal(buf_add(out, mask, sizeof mask), 0);
    assert_int_equal(buf_reserve(out, payload.n), 0);
    for (size_t i = 0; i < payload.n; i++) {
        out->data[out->len + i] = (char)(payload.p[i] ^ mask[i % sizeof mask]);
    }
    out->len += payload.n;
}

static inline void ws_put_close(struct buf *out, unsigned status) {
    char payload[] = {(char)(status >> 8), (char)status};
    ws_put(out, WS_FIN | WS_CLOSE, (struct sv){payload, sizeof payload});
}

/* The server's frame at the front of `in`: 0 when it is not whole. */
static inline size_t ws_frame(struct sv in, unsigned *first, struct sv *payload) {
    const unsigned char *p = (const unsigned char *)in.p;
    size_t n = in.n < 2 ? 0 : p[1];
    unsigned bytes = n == 126 ? 2 : n == 127 ? 8 : 0;
    if (in.n < 2 + (size_t)bytes) {
        return 0;
    }
    assert_true(n < 128); /* A server does not mask. */
    for (unsigned i = 0; i < bytes; i++) {
        n = i == 0 ? p[2] : n << 8 | p[2 + i];
    }
    if (in.n < 2 + bytes + n) {
        return 0;
    }
    *first = p[0];
    *payload = (struct sv){in.p + 2 + bytes, n};
    return 2 + bytes + n;
}

#endif
