/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_SESSION_H
#define SNAFFLE_GATEWAY_SESSION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/sv.h"
#include "gateway/breaker.h"
#include "gateway/endpoint.h"
#include "gateway/gateway.h"
#include "gateway/rewrite.h"
#include "gateway/target.h"
#include "net/http1.h"
#include "net/loop.h"
#include "net/server.h"

/* The inner side of gateway.h: what its files share. A session serves calls on every worker. */

struct call;
struct worker;

#define SESSION_TOKEN_BYTES 16 /* 128 bits: past guessing. */
#define SESSION_DIGEST_BYTES 32
/* On a session's own socket: an agent with its sub-agents has a handful of connections, each costs
 * a descriptor of the process that serves all other rollouts too, and each has one call at a time.
 */
#define SESSION_CLIENTS_MAX 256u
/* Requests in memory, of one session's own socket: four of the greatest. */
#define SESSION_HELD_MAX (256u * 1024 * 1024)
struct gateway_session {
    /* The same for life. */
    struct gateway *gateway;
    char *name;
    bool edits;
    bool record;
    bool disable_thinking;
    bool neutral_sampling;
    bool is_strangers;
    enum engine engine; /* What its own upstreams are; ENGINE_UNKNOWN: it is told. */
    int top_logprobs;
    long long max_tokens_cap;
    int64_t header_timeout_ms;
    int64_t connect_timeout_ms;
    char *token; /* NULL: of a session that goes on. */
    char *opener;
    uint64_t calls_before; /* Of the processes that had it before. */
    double began;
    unsigned char digest[SESSION_DIGEST_BYTES]; /* SHA-256 of the token. */
    struct worker *worker;                      /* Whose loop has the unix listener. */

    struct gateway_session *next; /* Under gateway.table. */
    struct server *unix_server;   /* Of who opened it. */

    atomic_bool lacks_key; /* Its key is gone with the process that had it: no call can be sent. */

    pthread_mutex_t changing; /* One change after the other. */
    pthread_mutex_t lock;     /* Guards all below; held for moments only. */
    struct target *target;
    struct endpoint *stuck; /* The place that its calls went to last; `stuck_in` has it. */
    struct endpoint_set *stuck_in;
    struct breaker breaker;
    bool is_closing;
    struct gateway_session_stats stats;
    int64_t failing_since_ms;
    int64_t used_ms;     /* When its last call began, or it was opened. */
    unsigned n_calls;    /* Under way, also those that only list models. */
    pthread_cond_t idle; /* There is none. */
};

struct gateway {
    struct journal *journal;
    bool keep_raw;
    uint64_t calls_max;
    atomic_ullong calls_open;
    bool (*on_request)(struct exchange *x, void *arg);
    size_t (*body_max_of)(struct exchange *x, void *arg);
    void (*on_call_end)(void *arg);
    void *hooks_arg;
    struct endpoints endpoints;
    unsigned n_workers;
    struct worker *workers;
    atomic_uint next_worker; /* For the next session's unix listener. */

    pthread_rwlock_t table; /* Guards all below; held for moments only. */
    struct gateway_session *sessions;
    struct gateway_session *default_session; /* Of requests without a known token; or NULL. */
    struct endpoint_set *default_endpoints;  /* Of sessions that name none; or NULL. */
};

/* The session that a bearer token or path token belongs to, else the default one, or NULL. The
 * time it takes does not tell how much of the token was right. It stays valid while the handler
 * runs that asked. */
struct gateway_session *session_find(struct gateway *g, struct sv token);

/* A call begins: it counts as under way from here to session_leave. False: the session is closing.
 * Gives what the call goes to, with a reference each, which session_leave takes back. */
struct session_use {
    struct target *target;
    struct endpoint_set *endpoints;
    struct endpoint *endpoint;
};
int session_enter(struct gateway_session *s, struct session_use *use, struct err *err) CHECK_RESULT;
void session_leave(struct gateway_session *s, struct session_use *use);

/* The policy's version is another than at the call's beginning. */
bool session_policy_changed(struct gateway_session *s, const struct session_use *use);

/* The place refused the connection: the call goes on with another, or false: there is none. */
bool session_switch(struct gateway_session *s, struct session_use *use);

uint64_t session_next_call(struct gateway_session *s);

/* The body failed as often as it may: it is refused, and counted. Gives its key, to be noted by. */
bool session_is_broken(struct gateway_session *s, struct sv body, struct breaker_key *key);
void session_note_body(struct gateway_session *s, const struct breaker_key *key, bool failed);

void session_note_capture_fault(struct gateway_session *s);

/* The call is over. */
void session_note_end(struct gateway_session *s, uint64_t completion_tokens);

/* The engine did, or did not, answer a call. */
void session_note_answer(struct gateway_session *s, bool answered);

void session_free(struct gateway_session *s);

/* A server's handler: `arg` is the worker, or the session of a unix socket. */
void route_tcp(struct exchange *x, void *worker);
size_t route_body_max(struct exchange *x, void *worker); /* 0: it shows no session's token. */
void route_unix(struct exchange *x, void *session);

#endif
