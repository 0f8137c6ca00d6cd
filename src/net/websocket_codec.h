/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_WEBSOCKET_CODEC_H
#define SNAFFLE_NET_WEBSOCKET_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"

/*
 * The frames of a WebSocket's server side (RFC 6455) without I/O: bytes in, whole text messages
 * out; pings are answered, closes too, and whoever breaks the protocol gets a close that says how.
 * What is to be sent gathers in websocket_codec_out.
 */
struct websocket_codec;

enum websocket_status {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_NO_BINARY = 1003,
    WEBSOCKET_POLICY = 1008,
    WEBSOCKET_FAULT = 1011,
};

struct websocket_codec_options {
    size_t message_max;                         /* A longer message ends it (1009). */
    void (*on_text)(struct sv text, void *arg); /* Valid during the call; may end the codec. */
    void *arg;                                  /* Kept. */
};

int websocket_codec_new(const struct websocket_codec_options *o, struct websocket_codec **out,
                        struct err *err) CHECK_RESULT;
void websocket_codec_free(struct websocket_codec *c); /* Accepts NULL. Not from on_text. */

/* Fails for want of memory only. After a close in either direction what comes is dropped. */
int websocket_codec_feed(struct websocket_codec *c, struct sv in, struct err *err) CHECK_RESULT;
int websocket_codec_ping(struct websocket_codec *c) CHECK_RESULT;
/* A reason is cut to 123 bytes. Further closes do nothing. */
int websocket_codec_close(struct websocket_codec *c, unsigned status,
                          struct sv reason) CHECK_RESULT;

struct buf *websocket_codec_out(struct websocket_codec *c); /* The caller sends and empties it. */
bool websocket_codec_may_send(const struct websocket_codec *c); /* No close was sent. */
/* Both sides have closed, or the peer's bytes can't be read further. */
bool websocket_codec_is_over(const struct websocket_codec *c);

#define WEBSOCKET_FRAME_HEAD_MAX 10u
/* Writes the head of a whole unmasked text message and gives it; the message follows. */
struct sv websocket_frame_head(char out[WEBSOCKET_FRAME_HEAD_MAX], uint64_t message_n);

#endif
