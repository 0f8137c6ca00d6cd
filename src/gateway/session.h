/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_SESSION_H
#define SNAFFLE_GATEWAY_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/breaker.h"
#include "gateway/gateway.h"
#include "gateway/rewrite.h"
#include "net/http1.h"
#include "net/loop.h"
#include "net/server.h"

/* The inner side of gateway.h: what its files share. All but the marked fields belong to the loop's
 * thread once the session is open. */

struct call;
struct tls_context;
struct upstream_pool;

#define SESSION_TOKEN_BYTES 16 /* 128 bits: past guessing. */
#define SESSION_DIGEST_BYTES 32
/* On a session's own socket: an agent with its sub-agents has a handful of connections, each costs
 * a descriptor of the process that serves all other rollouts too, and each has one call at a time.
 */
#define SESSION_CLIENTS_MAX 256u
/* Requests in memory, of one session's own socket: four of the greatest. */
#define SESSION_HELD_MAX (256u * 1024 * 1024)
/* Model, stream and tools together have a handful of combinations in one rollout. */
#define SESSION_REFUSALS_MAX 16u

/* What an engine has refused before, so that it is not asked for again. */
struct refusal {
    char *model; /* JSON value as sent. */
    bool stream;
    bool tools;
    enum capture_level level; /* The best that worked. */
};

struct gateway_session {
    struct gateway *gateway;
    struct gateway_session *next;
    char *name;
    char *upstream_url;
    char *host; /* Of the upstream. */
    uint16_t port;
    struct tls_context *tls;
    char *host_field;  /* "example.org:8000" */
    char *chat_target; /* "/v1/chat/completions" */
    char *models_target;
    char *api_key;
    char *key_name;
    char *model_override;
    bool edits;
    bool record;
    bool is_openai; /* Refuses unknown fields; never asked for ids. */
    bool disable_thinking;
    bool neutral_sampling;
    struct buf policy_version; /* A JSON value; empty: not known. */
    struct breaker breaker;
    int top_logprobs;
    long long max_tokens_cap;
    int64_t header_timeout_ms;
    int64_t connect_timeout_ms;
    char token[2 * SESSION_TOKEN_BYTES + 1];
    unsigned char digest[SESSION_DIGEST_BYTES]; /* SHA-256 of the token. */
    struct server *unix_server;

    bool is_closing;
    struct call *calls; /* Under way. */
    struct gateway_session_stats stats;
    int64_t failing_since_ms;
    struct refusal refusals[SESSION_REFUSALS_MAX];
    unsigned n_refusals;

    /* Under gateway.mutex: how many calls are under way, for who waits for their end. */
    unsigned n_calls;
    pthread_cond_t idle;
};

struct gateway {
    struct loop *loop;
    struct journal *journal;
    struct server *tcp_server;
    struct upstream_pool *pool;
    bool keep_raw;
    uint64_t calls_max;
    uint64_t calls_open;
    struct gateway_session *sessions;
    struct gateway_session *default_session; /* Of requests without a known token; or NULL. */
    bool (*on_request)(struct exchange *x, void *arg);
    void *on_request_arg;
    struct gateway_stats stats; /* But calls_open and sessions, which are counted when asked for. */
    struct call *spare_calls;
    unsigned n_spare_calls;

    pthread_mutex_t mutex;
    struct tls_context *tls; /* Under the mutex until made; made when first needed. */
};

/* The session that a bearer token or path token belongs to, or NULL. The time it takes does not
 * tell how much of the token was right. */
struct gateway_session *session_find(struct gateway *g, struct sv token);

enum capture_level session_level(const struct gateway_session *s, struct sv model, bool stream,
                                 bool tools);
void session_remember(struct gateway_session *s, struct sv model, bool stream, bool tools,
                      enum capture_level level);

/* The engine did, or did not, answer a call. */
void session_note_answer(struct gateway_session *s, bool answered);

void session_free(struct gateway_session *s);

/* A server's handler: `arg` is the session of a unix socket, or of none. */
void route_tcp(struct exchange *x, void *gateway);
bool route_may_ask(struct exchange *x, void *gateway); /* Shows a session's token. */
void route_unix(struct exchange *x, void *session);

#endif
