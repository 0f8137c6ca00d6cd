/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "base/mem.h"
#include "server/mcp/http_internal.h"

static void post_free(struct mcp_post *p) {
    *(p->previous ? &p->previous->next : &p->http->posts) = p->next;
    if (p->next) {
        p->next->previous = p->previous;
    }
    free(p);
}

/* Begins the stream of events, if that was not done. */
static void begin_events(struct mcp_post *p) {
    const struct server_field fields[] = {
        {SV("Content-Type"), SV("text/event-stream")},
        {SV("Cache-Control"), SV("no-cache")},
        {SV("X-Accel-Buffering"), SV("no")}, /* nginx would hold the events back. */
    };
    if (!p->streams) {
        p->streams = true;
        (void)exchange_start(p->x, 200, fields, ARRAY_LEN(fields), HTTP1_CHUNKED, 0);
    }
}

/* A message is one line: no event can break in it. A client that left is seen by on_gone. */
static void send_event(struct mcp_post *p, struct sv message) {
    AUTO_BUF struct buf event = {0};
    if (buf_adds(&event, "event: message\ndata: ") == 0 && buf_add_sv(&event, message) == 0 &&
        buf_adds(&event, "\n\n") == 0) {
        (void)exchange_send(p->x, buf_sv(&event));
    }
}

/* Quiet streams are cut on the way, and clients give up on an answer that does not begin. */
static void beat(struct exchange *x, void *arg) {
    struct mcp_post *p = arg;
    begin_events(p);
    (void)exchange_send(x, SV(": the rollout goes on\n\n"));
    exchange_after(x, MCP_HTTP_BEAT_MS, beat, p);
}

static void on_note(void *arg, struct sv message) {
    struct mcp_post *p = arg;
    if (exchange_is_full(p->x)) {
        return; /* Progress is not worth memory. */
    }
    begin_events(p);
    send_event(p, message);
    exchange_after(p->x, MCP_HTTP_BEAT_MS, beat, p);
}

static void reply_whole(struct mcp_post *p, struct sv message) {
    struct server_field fields[2] = {{SV("Content-Type"), SV("application/json")}};
    size_t n = 1;
    if (p->opens && rpc_is_initialized(p->rpc)) {
        fields[n++] = (struct server_field){SV("Mcp-Session-Id"), sv_from(p->session->id)};
    }
    (void)exchange_start(p->x, 200, fields, n, HTTP1_LENGTH, message.n);
    (void)exchange_send(p->x, message);
    exchange_end(p->x);
}

static void on_answer(void *arg, struct sv message) {
    struct mcp_post *p = arg;
    if (p->streams) {
        if (message.n > 0) {
            send_event(p, message);
        }
        exchange_end(p->x);
    } else if (message.n == 0) {
        exchange_reply(p->x, 202, SV(""), SV(""));
    } else {
        reply_whole(p, message);
    }
    if (p->session) {
        mcp_session_touch(p->http, p->session);
    }
    post_free(p);
}

/* There is no way to ask for the answer later: what it was to be is ended. */
static void on_gone(struct exchange *x, void *arg) {
    struct mcp_post *p = arg;
    (void)x;
    rpc_abandon(p->rpc, p);
}

void mcp_post_give_up(struct mcp_post *p, int status) {
    if (p->streams) {
        exchange_end(p->x);
    } else {
        mcp_http_refuse(p->x, status, "the session has ended");
    }
    post_free(p);
}

static bool takes(const struct exchange *x, struct sv type) {
    int i = -1;
    while ((i = http1_find(exchange_head(x), SV("Accept"), (size_t)(i + 1))) >= 0) {
        if (sv_find(http1_value(exchange_head(x), (size_t)i), type) != (size_t)-1) {
            return true;
        }
    }
    return false;
}

void mcp_post_feed(struct mcp_http *m, struct exchange *x, struct mcp_session *s, bool opens,
                   const json_t *message) {
    struct mcp_post *p = calloc(1, sizeof *p);
    if (!p) {
        mcp_http_refuse(x, 503, "out of memory");
        return;
    }
    *p = (struct mcp_post){.http = m,
                           .next = m->posts,
                           .x = x,
                           .rpc = s ? s->rpc : m->openenv,
                           .session = s,
                           .opens = opens,
                           .takes_events = s && takes(x, SV("text/event-stream"))};
    if (m->posts) {
        m->posts->previous = p;
    }
    m->posts = p;
    exchange_on_gone(x, on_gone, p);
    if (p->takes_events) {
        exchange_after(x, MCP_HTTP_BEAT_MS, beat, p);
    }
    char peer[CONN_PEER_MAX];
    exchange_peer(x, peer);
    struct rpc_sink sink = {p->takes_events ? on_note : NULL, on_answer, p, peer};
    if (message) {
        exchange_drop_body(x);
        rpc_feed_json(p->rpc, message, &sink);
    } else {
        rpc_feed(p->rpc, exchange_body(x), &sink);
    }
}
