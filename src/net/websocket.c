/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/websocket.h"

#include <stdlib.h>

#include "net/conn.h"
#include "net/websocket_internal.h"

struct websocket {
    struct websocket_options options;
    struct conn *conn;
    struct websocket_codec *codec;
    struct timer *timer;
    struct buf early; /* Came with the handshake. */
    bool is_open;     /* The owner knows it, and it is read. */
    bool heard;       /* Something came since our last ping. */
    size_t unsent;    /* Bytes then; a peer that takes some of them lives. */
    bool in_feed;     /* The codec is on the stack. */
    bool owner_left;
};

static void destroy(struct websocket *w) {
    timer_free(w->timer);
    websocket_codec_free(w->codec);
    buf_deinit(&w->early);
    free(w);
}

/* The connection was finished or aborted. */
static void end(struct websocket *w) {
    if (!w->owner_left) {
        w->options.on_gone(w, w->options.arg);
    }
    destroy(w);
}

static void abort_and_end(struct websocket *w) {
    conn_abort(w->conn);
    end(w);
}

static int flush(struct websocket *w) {
    struct buf *out = websocket_codec_out(w->codec);
    int r = out->len > 0 ? conn_write(w->conn, buf_sv(out)) : 0;
    buf_reset(out);
    if (r == 0 && conn_is_full(w->conn)) {
        conn_read_pause(w->conn); /* Else a peer that pings and does not read fills the queue. */
    }
    return r;
}

static void finish_and_end(struct websocket *w) {
    conn_finish(w->conn); /* It waits for the peer's half. */
    end(w);
}

static void take(struct websocket *w, struct sv bytes) {
    w->heard = true;
    w->in_feed = true;
    int r = websocket_codec_feed(w->codec, bytes, NULL);
    w->in_feed = false;
    int sent = flush(w);
    if (r < 0 || sent == ERR_NOMEM || sent == ERR_LIMIT) {
        abort_and_end(w);
    } else if (w->owner_left || websocket_codec_is_over(w->codec)) {
        finish_and_end(w);
    } /* ERR_CLOSED: on_lost comes. */
}

static void on_text(struct sv text, void *arg) {
    struct websocket *w = arg;
    if (!w->owner_left) {
        w->options.on_text(w, text, w->options.arg);
    }
}

/* --- the connection's events --- */

static void on_read(struct conn *conn, struct sv bytes, void *arg) {
    (void)conn;
    take(arg, bytes);
}

static void on_eof(struct conn *conn, bool truncated, void *arg) {
    (void)conn;
    (void)truncated;
    finish_and_end(arg);
}

static void on_hangup(struct conn *conn, void *arg) {
    (void)conn;
    abort_and_end(arg);
}

static void on_lost(struct conn *conn, const struct err *err, void *arg) {
    (void)conn;
    (void)err;
    abort_and_end(arg);
}

static void on_drain(struct conn *conn, void *arg) {
    (void)arg;
    conn_read_resume(conn);
}

static const struct conn_events events = {
    .on_read = on_read,
    .on_eof = on_eof,
    .on_hangup = on_hangup,
    .on_gone = on_lost,
    .on_drain = on_drain,
};

/* --- time --- */

static void begin(struct websocket *w) {
    struct buf early = w->early;
    w->early = (struct buf){0};
    w->is_open = true;
    timer_start(w->timer, w->options.ping_ms);
    conn_read_resume(w->conn);
    if (early.len > 0) {
        take(w, buf_sv(&early));
    }
    buf_deinit(&early);
}

static void look(struct websocket *w) {
    size_t unsent = conn_queued(w->conn);
    if (!w->heard && unsent >= w->unsent) {
        abort_and_end(w);
        return;
    }
    w->heard = false;
    int r = websocket_codec_ping(w->codec);
    r = r < 0 ? r : flush(w);
    w->unsent = conn_queued(w->conn);
    timer_start(w->timer, w->options.ping_ms);
    if (r < 0 && r != ERR_CLOSED) {
        abort_and_end(w);
    }
}

static void on_time(void *arg) {
    struct websocket *w = arg;
    if (w->is_open) {
        look(w);
    } else {
        begin(w);
    }
}

/* --- the owner's side --- */

int websocket_new(struct conn *conn, struct buf *early, const struct websocket_options *o,
                  struct websocket **out, struct err *err) {
    struct websocket *w = calloc(1, sizeof *w);
    struct websocket_codec_options co = {
        .message_max = o->message_max ? o->message_max : WEBSOCKET_MESSAGE_MAX,
        .on_text = on_text,
        .arg = w,
    };
    int r = w ? timer_new(conn_loop(conn), on_time, w, &w->timer, err)
              : err_set(err, ERR_NOMEM, "no memory for a WebSocket");
    r = r < 0 ? r : websocket_codec_new(&co, &w->codec, err);
    if (r < 0 || !w) {
        conn_abort(conn);
        if (w) {
            destroy(w);
        }
        return r;
    }
    w->options = *o;
    w->options.ping_ms = o->ping_ms ? o->ping_ms : WEBSOCKET_PING_MS;
    w->conn = conn;
    w->early = *early;
    *early = (struct buf){0};
    w->heard = true;
    conn_set_events(conn, &events, w);
    timer_start(w->timer, 0);
    *out = w;
    return 0;
}

size_t websocket_unsent(const struct websocket *w) {
    return w->conn ? conn_queued(w->conn) : 0;
}

int websocket_send(struct websocket *w, struct sv text) {
    char head[WEBSOCKET_FRAME_HEAD_MAX];
    struct sv parts[] = {websocket_frame_head(head, text.n), text};
    if (!websocket_codec_may_send(w->codec)) {
        return ERR_CLOSED;
    }
    return conn_writev(w->conn, parts, 2);
}

void websocket_close(struct websocket *w, enum websocket_status status, struct sv reason) {
    int r = websocket_codec_close(w->codec, status, reason);
    w->owner_left = true;
    if (w->in_feed) {
        return;
    }
    if (r < 0 || flush(w) < 0) {
        abort_and_end(w);
    } else {
        finish_and_end(w);
    }
}
