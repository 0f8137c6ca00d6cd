/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/websocket_codec.h"

#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#define REASON_MAX 123u              /* A control frame's 125 bytes less the status. */
#define KEPT_MESSAGE_MAX (64u << 10) /* Memory of a longer message is given back after it. */

struct websocket_codec {
    struct websocket_codec_options options;
    wslay_event_context_ptr wslay;
    struct sv in;       /* What wslay has not read of the bytes being fed. */
    struct buf message; /* wslay itself would take a block of memory for each fragment. */
    struct buf out;
    bool in_control; /* The frame under way is a ping, a pong or a close. */
    bool no_memory;
    bool closes; /* A close of ours is queued or sent. */
};

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *to, size_t n, int flags, void *arg) {
    struct websocket_codec *c = arg;
    (void)flags;
    if (c->in.n == 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    n = c->in.n < n ? c->in.n : n;
    memcpy(to, c->in.p, n);
    c->in = sv_cut(c->in, n);
    return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *bytes, size_t n, int flags,
                       void *arg) {
    struct websocket_codec *c = arg;
    (void)flags;
    if (buf_add(&c->out, bytes, n) < 0) {
        wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    return (ssize_t)n;
}

/* Says why, and reads no further. */
static void end(struct websocket_codec *c, wslay_event_context_ptr ctx, unsigned status,
                struct sv reason) {
    c->no_memory = websocket_codec_close(c, status, reason) < 0 || c->no_memory;
    wslay_event_shutdown_read(ctx);
}

static void on_frame(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *arg) {
    struct websocket_codec *c = arg;
    c->in_control = wslay_is_ctrl_frame(frame->opcode);
    if (!c->in_control && frame->payload_length > c->options.message_max - c->message.len) {
        end(c, ctx, WSLAY_CODE_MESSAGE_TOO_BIG, SV("the message is too long"));
    }
}

static void on_chunk(wslay_event_context_ptr ctx,
                     const struct wslay_event_on_frame_recv_chunk_arg *chunk, void *arg) {
    struct websocket_codec *c = arg;
    if (!c->in_control && !c->closes && buf_add(&c->message, chunk->data, chunk->data_length) < 0) {
        c->no_memory = true;
        wslay_event_shutdown_read(ctx);
    }
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
                       void *arg) {
    struct websocket_codec *c = arg;
    if (m->opcode == WSLAY_BINARY_FRAME) {
        end(c, ctx, WEBSOCKET_NO_BINARY, SV("want text"));
    } else if (m->opcode == WSLAY_TEXT_FRAME && !c->closes && !c->no_memory) {
        c->options.on_text(buf_sv(&c->message), c->options.arg);
    } else {
        return; /* wslay answers what is no message; the one under way stays. */
    }
    buf_reset(&c->message);
    if (c->message.cap > KEPT_MESSAGE_MAX) {
        buf_deinit(&c->message);
    }
}

int websocket_codec_new(const struct websocket_codec_options *o, struct websocket_codec **out,
                        struct err *err) {
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = on_recv,
        .send_callback = on_send,
        .on_frame_recv_start_callback = on_frame,
        .on_frame_recv_chunk_callback = on_chunk,
        .on_msg_recv_callback = on_message,
    };
    struct websocket_codec *c = calloc(1, sizeof *c);
    if (!c || wslay_event_context_server_init(&c->wslay, &callbacks, c) < 0) {
        free(c);
        return err_set(err, ERR_NOMEM, "no memory for a WebSocket");
    }
    c->options = *o;
    wslay_event_config_set_no_buffering(c->wslay, 1);
    *out = c;
    return 0;
}

void websocket_codec_free(struct websocket_codec *c) {
    if (c) {
        wslay_event_context_free(c->wslay);
        buf_deinit(&c->message);
        buf_deinit(&c->out);
        free(c);
    }
}

static int put(struct websocket_codec *c) {
    return wslay_event_send(c->wslay) < 0 ? ERR_NOMEM : 0;
}

/* What wslay can't parse it answers with a close of no status: there is one for that. */
static int tell_broken(struct websocket_codec *c) {
    static const char status[] = {0x02, WSLAY_CODE_PROTOCOL_ERROR >> 8,
                                  (char)(WSLAY_CODE_PROTOCOL_ERROR & 0xff)};
    if (c->closes) {
        return 0;
    }
    c->closes = true;
    if (put(c) < 0 || !sv_ends_with(buf_sv(&c->out), SV("\x88\0"))) {
        return ERR_NOMEM;
    }
    c->out.len--;
    return buf_add(&c->out, status, sizeof status);
}

int websocket_codec_feed(struct websocket_codec *c, struct sv in, struct err *err) {
    c->in = in;
    int r = wslay_event_recv(c->wslay);
    c->in = (struct sv){0};
    if (r == WSLAY_ERR_CALLBACK_FAILURE && !c->no_memory) {
        r = tell_broken(c);
    }
    if (r < 0 || c->no_memory || put(c) < 0) {
        return err_set(err, ERR_NOMEM, "no memory for a WebSocket's message");
    }
    return 0;
}

int websocket_codec_ping(struct websocket_codec *c) {
    const struct wslay_event_msg ping = {.opcode = WSLAY_PING};
    int r = wslay_event_queue_msg(c->wslay, &ping);
    return r == WSLAY_ERR_NO_MORE_MSG ? 0 : r < 0 ? ERR_NOMEM : put(c);
}

int websocket_codec_close(struct websocket_codec *c, unsigned status, struct sv reason) {
    size_t n = reason.n < REASON_MAX ? reason.n : REASON_MAX;
    int r = wslay_event_queue_close(c->wslay, (uint16_t)status, (const uint8_t *)reason.p, n);
    c->closes = true;
    return r == WSLAY_ERR_NO_MORE_MSG ? 0 : r < 0 ? ERR_NOMEM : put(c);
}

struct buf *websocket_codec_out(struct websocket_codec *c) {
    return &c->out;
}

bool websocket_codec_may_send(const struct websocket_codec *c) {
    return !c->closes && !wslay_event_get_close_sent(c->wslay) &&
           wslay_event_get_read_enabled(c->wslay);
}

bool websocket_codec_is_over(const struct websocket_codec *c) {
    return wslay_event_get_close_sent(c->wslay) && !wslay_event_get_read_enabled(c->wslay);
}

struct sv websocket_frame_head(char out[WEBSOCKET_FRAME_HEAD_MAX], uint64_t message_n) {
    unsigned size_bytes = message_n < 126 ? 0 : message_n <= UINT16_MAX ? 2 : 8;
    out[0] = (char)0x81; /* The only frame of a text. */
    out[1] = (char)(size_bytes == 0 ? message_n : size_bytes == 2 ? 126 : 127);
    for (unsigned i = 0; i < size_bytes; i++) {
        out[2 + i] = (char)(message_n >> (8 * (size_bytes - 1 - i)));
    }
    return (struct sv){out, 2 + size_bytes};
}
