/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_NET_SERVER_H
#define SNAFFLE_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "net/conn.h"
#include "net/http1.h"
#include "net/loop.h"

/*
 * A small HTTP/1.1 server: whole requests in, answers out, whole or in pieces. Keep-alive,
 * pipelining (one at a time, in order), Expect answered with 100. Handlers run on the loop's thread
 * and must not block; they may answer later.
 *
 *     static void on_request(struct exchange *x, void *arg) {
 *         exchange_reply(x, 200, SV("application/json"), SV("{}"));
 *     }
 */
struct server;

/* One request and its answer. The handler's side owns it until it calls exactly one of
 * exchange_reply, exchange_end, exchange_cut and exchange_take; also when the client has left. */
struct exchange;

#define SERVER_BODY_MAX (64u * 1024 * 1024) /* Long contexts with images pass 8 MB. */
#define SERVER_HEAD_MS 30000                /* From a request's first byte to its head's end. */
#define SERVER_BODY_MS 30000                /* Between two reads of a body. */
#define SERVER_IDLE_MS 75000                /* Kept-alive without a request; nginx's default. */
/* Each costs a descriptor, of which a process has 20,000 as a rule and an engine's side needs as
 * many. Above it the oldest that has sent no whole head makes room, else the new one gets a 503. */
#define SERVER_CLIENTS_MAX 16384u
/* Requests held in memory, of all clients together: sixteen of the greatest, or a thousand of 1 MB.
 * What would pass it gets a 503. */
#define SERVER_HELD_MAX (1024u * 1024 * 1024)
/* A request that is on its way on an idle connection when it drains is answered. */
#define SERVER_DRAIN_MS 250

struct server_options {
    const char *host; /* As in listener.h. */
    uint16_t port;
    bool shares_port; /* As in listener.h. */
    const char *unix_path;
    unsigned unix_mode;
    size_t body_max; /* 0: SERVER_BODY_MAX. A longer body is answered 413. */
    int64_t head_ms; /* Times: 0 takes the constant above. */
    int64_t body_ms;
    int64_t idle_ms;
    unsigned clients_max; /* 0: SERVER_CLIENTS_MAX. */
    size_t held_max;      /* 0: SERVER_HELD_MAX. */
    /* The head of a request with a body is there: how many bytes of it are read, of body_max at
     * most; a longer one is answered 413. 0: on_request comes at once, without the body, and the
     * connection ends with the answer: who may not ask can't fill the memory. NULL: body_max. */
    size_t (*body_max_of)(struct exchange *x, void *arg);
    bool tells_idle;      /* A connection that idled too long gets an unasked 408 before its end. */
    bool never_continues; /* No 100 for who awaits it, as some servers do. */
    void (*on_request)(struct exchange *x, void *arg);
    void *arg; /* Kept. */
};

/* From any thread. server_free cuts every connection; handlers that still own an exchange must end
 * it (its answers go nowhere) before the loop is freed. */
int server_new(struct loop *l, const struct server_options *o, struct server **out,
               struct err *err) CHECK_RESULT;
/* Listens no more; connections end with the answer under way or to come, and those without a
 * request after SERVER_DRAIN_MS. Loop thread only. */
void server_drain(struct server *s);
unsigned server_clients(const struct server *s); /* Connections now. Loop thread only. */
uint16_t server_port(const struct server *s);
void server_free(struct server *s);

/* The request; valid as long as the exchange. */
const struct http1_head *exchange_head(const struct exchange *x);
struct sv exchange_path(const struct exchange *x);  /* Without query. */
struct sv exchange_query(const struct exchange *x); /* Without question mark. */
struct sv exchange_body(const struct exchange *x);
void exchange_drop_body(struct exchange *x);   /* Gives its memory back: nobody will read it. */
bool exchange_keeps(const struct exchange *x); /* The connection, after the answer. */
struct loop *exchange_loop(const struct exchange *x);
void exchange_peer(const struct exchange *x, char out[CONN_PEER_MAX]); /* As conn_peer. */

/* The whole answer, and the end. `content_type` may be empty. */
void exchange_reply(struct exchange *x, int status, struct sv content_type, struct sv body);
/* {"error": {"message": ..., "type": ..., "code": ...}} in OpenAI's form, by the error's own
 * status. */
void exchange_reply_err(struct exchange *x, const struct err *err);
void exchange_reply_err_as(struct exchange *x, int status, const struct err *err);

/* In pieces. Failures (the client left: ERR_CLOSED) need no care: the exchange must be ended
 * anyhow. */
struct server_field {
    struct sv name, value;
};
int exchange_start(struct exchange *x, int status, const struct server_field *fields, size_t n,
                   enum http1_framing framing, uint64_t length);
int exchange_send(struct exchange *x, struct sv payload); /* One chunk if chunked. */
int exchange_send_raw(struct exchange *x, struct sv raw); /* Bytes as they are, head or body. */
int exchange_send_rawv(struct exchange *x, const struct sv *parts, size_t n); /* In one write. */
/* Ends the answer: the last chunk if chunked; the connection is kept if both sides can. After raw
 * bytes without exchange_start nothing is added: they have to be a whole answer. */
void exchange_end(struct exchange *x);

enum exchange_cut { EXCHANGE_CUT_FIN, EXCHANGE_CUT_RESET };
/* Flushes what was sent, then cuts the connection in the middle of the answer. */
void exchange_cut(struct exchange *x, enum exchange_cut how);

/* Gives the connection away, after a 101 was sent raw. `early` takes bytes that came behind the
 * request. ERR_CLOSED (and the exchange ended) when the client has left. */
int exchange_take(struct exchange *x, struct conn **out, struct buf *early,
                  struct err *err) CHECK_RESULT;

/* Runs fn(x, arg) once after `ms`, replacing an earlier one; not after the exchange's end.
 * ERR_NOMEM: it never runs. */
int exchange_after(struct exchange *x, int64_t ms, void (*fn)(struct exchange *x, void *arg),
                   void *arg);
/* Runs once when the client leaves before the end (its FIN counts). */
void exchange_on_gone(struct exchange *x, void (*fn)(struct exchange *x, void *arg), void *arg);
/* Runs each time when a queue that was full is empty again. */
void exchange_on_drain(struct exchange *x, void (*fn)(struct exchange *x, void *arg), void *arg);
bool exchange_is_gone(const struct exchange *x);
bool exchange_is_full(const struct exchange *x); /* Stop sending until on_drain. */

#endif
