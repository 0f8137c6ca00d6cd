/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_GATEWAY_H
#define SNAFFLE_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "journal/journal.h"

/*
 * The HTTP server that the agent takes for its model. It forwards to the real endpoint, makes only
 * the documented edits, and writes each call into the journal. It runs threads of its own; every
 * function may be called from any other thread (those that wait say so, and must not be called from
 * a handler). It knows nothing of sandboxes and judges nothing.
 *
 *     gateway_start(&(struct gateway_options){.journal = j}, &g, err);
 *     gateway_session_open(g, &options, &s, err);
 *     gateway_session_listen_unix(s, socket_path, err);
 *     ... the agent works ...
 *     gateway_session_close(s, deadline_in_s(5), err);
 *     gateway_stop(g);
 */

struct exchange;
struct gateway;
struct gateway_session;

#define GATEWAY_WORKERS_MAX 256u /* More than any machine can feed. */

struct gateway_options {
    struct journal *journal;  /* Keeps. */
    const char *host;         /* NULL: no TCP listener, unix sockets only. */
    uint16_t port;            /* 0: any; gateway_port tells. */
    const char *engine;       /* What its engines are (profile.h); NULL: their answers tell. */
    bool keep_raw;            /* Write the engine's raw answers into the journal too. */
    uint64_t connections_max; /* Calls at once; 0: 4,096. */
    unsigned clients_max;     /* Connections on TCP, of each worker; 0: SERVER_CLIENTS_MAX. */
    unsigned workers;         /* Threads, each with a loop and a listener; 0: 1. */
    /* Sees each request on TCP first, on a loop's thread, and must not block. True: it is its to
     * answer. NULL: none. */
    bool (*on_request)(struct exchange *x, void *arg);
    /* Before its body is read: how much of it the caller above takes at most. SIZE_MAX: it is not
     * its to answer. NULL: none is. */
    size_t (*body_max_of)(struct exchange *x, void *arg);
    /* A call is over, and its result counts. On a loop's thread. NULL: none. */
    void (*on_call_end)(void *arg);
    void *hooks_arg; /* Of the three. */
};

int gateway_start(const struct gateway_options *o, struct gateway **out,
                  struct err *err) CHECK_RESULT;
uint16_t gateway_port(const struct gateway *g);
/* The TCP listeners close; open calls go on, and each connection ends with its answer. */
void gateway_drain(struct gateway *g);
unsigned gateway_connections(struct gateway *g); /* Of agents, on TCP. */
void gateway_stop(struct gateway *g);            /* Ends open calls as aborts, joins its threads. */

/* Where calls go of sessions that name no upstream themselves: NULL-ended URLs of engines that
 * serve one model, or NULL. Holds for every call begun after it returns. */
int gateway_set_upstreams(struct gateway *g, const char *const *urls, struct err *err) CHECK_RESULT;

/* Each engine that a session or the gateway names; a code of `fn` other than 0 ends it. */
struct gateway_upstream {
    const char *url;
    unsigned calls;    /* Under way. */
    unsigned sessions; /* That stick to it. */
    bool is_out;       /* It refused connections, and is not asked for now. */
};
typedef int (*gateway_upstream_fn)(void *arg, const struct gateway_upstream *u);
int gateway_list_upstreams(struct gateway *g, gateway_upstream_fn fn, void *arg);

/* How many of what was timed took at most so long; the last count is of all that took longer. */
#define GATEWAY_TIMES 15
extern const int64_t gateway_time_bounds_us[GATEWAY_TIMES - 1];
struct gateway_times {
    uint64_t counts[GATEWAY_TIMES];
    uint64_t sum_us;
};

/*
 * What became of every call since the start, over all sessions, also those that are closed. At any
 * moment calls == calls_open + calls_stored + calls_passed + calls_lost.
 */
struct gateway_stats {
    uint64_t calls;             /* Begun: requests for a model that were understood. */
    uint64_t calls_open;        /* Not ended yet. */
    uint64_t calls_stored;      /* Ended, with the result in the journal. */
    uint64_t calls_passed;      /* Ended, in sessions that record nothing. */
    uint64_t calls_lost;        /* Ended, and the journal refused a record of it. */
    uint64_t refused;           /* Answered with an error here, without becoming a call. */
    uint64_t completion_tokens; /* As usage or the ids say. */
    uint64_t prompt_tokens;     /* As usage says. */
    uint64_t sessions;          /* Open now. */
    /* How the calls ended that did. */
    uint64_t ended_complete;
    uint64_t ended_error;
    uint64_t client_aborts;
    uint64_t upstream_aborts;
    uint64_t moved; /* Calls that went to another engine, since theirs refused the connection. */
    /* What the gateway itself added to a call: from the request's last byte to its sending on, and
     * from the answer's end to its passing on. */
    struct gateway_times added;
};
/* Waits for each worker's turn. */
void gateway_stats(struct gateway *g, struct gateway_stats *out);

/* What the journal says of a session that goes on, since the process that had it is dead. */
struct gateway_session_past {
    const char *token_sha256; /* In hex: the token itself is nowhere. */
    uint64_t calls;           /* Numbers go on behind it. */
    double began;             /* When it was opened first; seconds since 1970. */
    bool lacks_key;           /* It had a key that is gone: 401 until a change names one. */
};

struct gateway_session_options {
    const char *name;                        /* "<rollout>.<attempt>", in every record. */
    const char *token;                       /* What the agent shows; NULL: a fresh one. */
    const struct gateway_session_past *past; /* NULL: it is new. */
    const char *opener;           /* A JSON object of who opens it, for its record; or NULL. */
    const char *upstream_url;     /* ".../v1" as a rule; NULL: `upstreams`. */
    const char *const *upstreams; /* NULL-ended: engines of one model. NULL: the gateway's. */
    const char *api_key;        /* Borrowed, copied into memory of the gateway only. NULL: none. */
    const char *key_name;       /* The name of the variable the key came from; for records. */
    const char *model_override; /* Sent in place of the agent's model; NULL: the agent's own. */
    const char *level;          /* "tokens", "logprobs" or "text" at most; NULL: "tokens". */
    const char *engine;         /* What its own upstreams are; NULL: as the gateway has it. */
    bool edits;                 /* false: bytes as the agent sent them (black_box). */
    bool record;                /* false: nothing of the calls is journalled. */
    int top_logprobs;           /* Asked for if `edits`; the reference's default is 5. */
    long long max_tokens_cap;   /* 0: none. */
    bool disable_thinking;      /* chat_template_kwargs.enable_thinking = false, if absent. */
    bool neutral_sampling;      /* At the level of tokens: no truncation, no penalties. */
    const char *policy_version; /* Which weights the engine runs; NULL: not known. */
    bool policy_is_json;        /* It is a JSON value as it is, not a text. */
    unsigned loop_break_calls;  /* Failed answers to one and the same body; 0: no breaker. */
    double loop_break_s;        /* Within this time; 0: 60. */
    double header_timeout_s;    /* Wait for the engine's first byte; 0: none. */
    double connect_timeout_s;   /* 0: 30. */
    bool is_strangers;          /* Who named the upstream is not trusted: no link-local address is
                                   asked, nor one of a cloud's own, whatever its name stands for
                                   when a call connects. */
};

/* Journals the opening, and waits for that. A fresh token is a 128-bit secret in hex; ERR_EXISTS: a
 * given one is another session's. */
int gateway_session_open(struct gateway *g, const struct gateway_session_options *o,
                         struct gateway_session **out, struct err *err) CHECK_RESULT;
const char *gateway_session_token(const struct gateway_session *s); /* NULL: of one that goes on. */
bool gateway_session_has_token(const struct gateway_session *s, struct sv token);
double gateway_session_began(const struct gateway_session *s); /* First; seconds since 1970. */

/* Who shows no known token on TCP is this session's agent from now on. NULL: nobody is. */
void gateway_set_default_session(struct gateway *g, struct gateway_session *s);

/* From the next call on. Each call's record says what stood at its beginning, or what the engine
 * itself says. NULL: not known. Waits for the journal. */
int gateway_session_set_policy_version(struct gateway_session *s, const char *version,
                                       struct err *err) CHECK_RESULT;

/* What is to be changed; the others stay. */
struct gateway_session_change {
    bool has_policy_version, has_upstreams, has_api_key, has_model, has_level;
    const char *policy_version;
    bool policy_is_json;          /* It is a JSON value as it is, not a text. */
    const char *const *upstreams; /* NULL: the gateway's. */
    const char *api_key;
    const char *key_name;
    const char *model_override;
    const char *level;
};
/* All of it holds for every call begun after it returns, and nothing of it for any begun before it
 * was called. Waits for the journal. */
int gateway_session_change(struct gateway_session *s, const struct gateway_session_change *change,
                           struct err *err) CHECK_RESULT;

/* Whoever connects to this unix socket is this session's agent (any bearer token is accepted
 * there); on TCP the agent shows the token as /s/<token>/v1 or as its bearer key. The socket's mode
 * is 0666: the folder around it is the guard. The file is removed at the session's close. */
int gateway_session_listen_unix(struct gateway_session *s, const char *path,
                                struct err *err) CHECK_RESULT;

struct gateway_session_stats {
    uint64_t calls;             /* Begun. */
    uint64_t calls_ended;       /* With a result in the journal (or passed on, if not recorded). */
    uint64_t completion_tokens; /* As usage or the ids say. */
    uint64_t failed_calls;      /* Those that the engine did not answer. */
    unsigned calls_open;
    uint64_t loop_refusals;   /* Requests that the loop breaker refused; they are no calls. */
    unsigned failed_in_a_row; /* Calls the engine did not answer, up to now. */
    double failing_for_s;     /* Since the first of them. */
    bool capture_fault;       /* The journal refused a record. */
    double idle_s;            /* Since its last call began, or it was opened. */
};
void gateway_session_stats(const struct gateway_session *s, struct gateway_session_stats *out);

/* Its present settings, as a JSON object: "upstreams" (its own, else the gateway's), "key_name",
 * "model", "level", "policy_version", "lacks_key". */
int gateway_session_put_settings(const struct gateway_session *s, struct buf *out) CHECK_RESULT;

/* From now on no call of it begins. */
void gateway_session_refuse(struct gateway_session *s);

/* Refuses, lets open calls end until the deadline, then aborts them; journals the close; frees the
 * session. After it returns nothing of the session is written any more. */
int gateway_session_close(struct gateway_session *s, deadline_ms until, struct err *err);

#endif
