/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a session: opened, listened for, asked about, closed. Any thread but a loop's. */
#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rand.h"
#include "gateway/call.h"
#include "gateway/session.h"
#include "gateway/session_head.h"
#include "gateway/worker.h"

/* Thirty seconds cover a machine that wakes up, and an agent does not wait longer for a word. */
#define SESSION_CONNECT_MS 30000
/* Agents that wait longer between two tries do not load an engine. */
#define SESSION_LOOP_MS 60000

static int make_token(struct gateway_session *s, const char *given) {
    char fresh[2 * SESSION_TOKEN_BYTES + 1];
    if (!given) {
        rand_hex(fresh, SESSION_TOKEN_BYTES);
    }
    s->token = mem_strdup(given ? given : fresh);
    explicit_bzero(fresh, sizeof fresh);
    if (!s->token) {
        return ERR_NOMEM;
    }
    SHA256((const unsigned char *)s->token, strlen(s->token), s->digest);
    return 0;
}

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_past(struct gateway_session *s, const struct gateway_session_past *past,
                     struct err *err) {
    struct sv hex = sv_from(past->token_sha256);
    bool good = hex.n == 2 * SESSION_DIGEST_BYTES;
    for (size_t i = 0; i < SESSION_DIGEST_BYTES && good; i++) {
        int high = digit_of(hex.p[2 * i]);
        int low = digit_of(hex.p[2 * i + 1]);
        good = high >= 0 && low >= 0;
        s->digest[i] = good ? (unsigned char)(high * 16 + low) : 0;
    }
    s->began = past->began;
    s->lacks_key = past->lacks_key;
    s->calls_before = s->stats.calls = s->stats.calls_ended = past->calls;
    return good ? 0 : err_set(err, ERR_INPUT, "token_sha256: want 64 hex digits");
}

static int aim(struct gateway_session *s, const struct gateway_session_options *o,
               struct err *err) {
    const char *const one[] = {o->upstream_url, NULL};
    const struct gateway_session_change change = {
        .has_upstreams = o->upstream_url || o->upstreams,
        .has_api_key = true,
        .has_model = true,
        .has_level = o->level,
        .has_policy_version = true,
        .upstreams = o->upstream_url ? one : o->upstreams,
        .api_key = o->api_key,
        .key_name = o->key_name,
        .model_override = o->model_override,
        .level = o->level,
        .policy_version = o->policy_version,
        .policy_is_json = o->policy_is_json,
    };
    return session_aim(s, NULL, &change, &s->target, err);
}

static int fill(struct gateway_session *s, const struct gateway_session_options *o,
                struct err *err) {
    const struct profile *profile = o->engine ? profile_named(o->engine) : NULL;
    if (o->engine && !profile) {
        return err_set(err, ERR_INPUT, "engine: '%s' is none that is known", o->engine);
    }
    s->engine = profile ? profile->engine : ENGINE_UNKNOWN;
    s->edits = o->edits;
    s->record = o->record;
    s->disable_thinking = o->disable_thinking;
    s->neutral_sampling = o->neutral_sampling;
    s->is_strangers = o->is_strangers;
    s->breaker.failures_max = o->loop_break_calls;
    s->breaker.within_ms =
        o->loop_break_s > 0 ? (int64_t)(o->loop_break_s * 1000) : SESSION_LOOP_MS;
    s->top_logprobs = o->top_logprobs;
    s->max_tokens_cap = o->max_tokens_cap;
    s->header_timeout_ms = (int64_t)(o->header_timeout_s * 1000);
    s->connect_timeout_ms =
        o->connect_timeout_s > 0 ? (int64_t)(o->connect_timeout_s * 1000) : SESSION_CONNECT_MS;
    s->used_ms = clock_ms();
    s->began = clock_unix();
    s->name = mem_strdup(o->name);
    s->opener = mem_strdup(o->opener);
    if (!s->name || (o->opener && !s->opener) || (!o->past && make_token(s, o->token) < 0)) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int rc = o->past ? take_past(s, o->past, err) : 0;
    return rc < 0 ? rc : aim(s, o, err);
}

/* Two sessions of one token would be one for the agents. */
static int link_session(struct gateway_session *s, struct err *err) {
    struct gateway *g = s->gateway;
    bool taken = false;
    pthread_rwlock_wrlock(&g->table);
    for (const struct gateway_session *other = g->sessions; other && !taken; other = other->next) {
        taken = memcmp(other->digest, s->digest, sizeof s->digest) == 0;
    }
    if (!taken) {
        s->next = g->sessions;
        g->sessions = s;
    }
    pthread_rwlock_unlock(&g->table);
    return taken ? err_set(err, ERR_EXISTS, "there is a session with this token already") : 0;
}

static void unlink_session(struct gateway_session *s) {
    struct gateway *g = s->gateway;
    pthread_rwlock_wrlock(&g->table);
    struct gateway_session **at = &g->sessions;
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    if (g->default_session == s) {
        g->default_session = NULL;
    }
    pthread_rwlock_unlock(&g->table);
}

static struct gateway_session *new_session(struct gateway *g) {
    pthread_condattr_t attr;
    struct gateway_session *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->idle, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->changing, NULL);
    s->gateway = g;
    s->worker = &g->workers[g->next_worker++ % g->n_workers];
    return s;
}

int gateway_session_open(struct gateway *g, const struct gateway_session_options *o,
                         struct gateway_session **out, struct err *err) {
    struct gateway_session *s = new_session(g);
    if (!s) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    int rc = fill(s, o, err);
    rc = rc < 0 ? rc : session_journal_opening(s, err);
    rc = rc < 0 ? rc : link_session(s, err);
    if (rc < 0) {
        session_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

const char *gateway_session_token(const struct gateway_session *s) {
    return s->token;
}

bool gateway_session_has_token(const struct gateway_session *s, struct sv token) {
    unsigned char digest[SESSION_DIGEST_BYTES];
    SHA256((const unsigned char *)token.p, token.n, digest);
    return sv_eq_constant_time((struct sv){(const char *)digest, sizeof digest},
                               (struct sv){(const char *)s->digest, sizeof s->digest});
}

double gateway_session_began(const struct gateway_session *s) {
    return s->began;
}

int gateway_session_listen_unix(struct gateway_session *s, const char *path, struct err *err) {
    const struct server_options o = {
        .unix_path = path,
        .unix_mode = 0666,
        .clients_max = SESSION_CLIENTS_MAX,
        .held_max = SESSION_HELD_MAX,
        .on_request = route_unix,
        .arg = s,
    };
    if (s->unix_server) {
        return err_set(err, ERR_STATE, "the session listens on a unix socket already");
    }
    return server_new(s->worker->loop, &o, &s->unix_server, err);
}

static void nothing(struct worker *w, void *arg) {
    (void)w;
    (void)arg;
}

void gateway_session_stats(const struct gateway_session *s, struct gateway_session_stats *out) {
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&s->lock;
    workers_call(s->gateway, nothing, NULL); /* What an agent has seen the end of counts. */
    pthread_mutex_lock(lock);
    *out = s->stats;
    out->calls_open = (unsigned)(s->stats.calls - s->stats.calls_ended);
    out->idle_s = (double)(clock_ms() - s->used_ms) / 1000;
    if (out->failed_in_a_row > 0) {
        out->failing_for_s = (double)(clock_ms() - s->failing_since_ms) / 1000;
    }
    pthread_mutex_unlock(lock);
}

static void abort_calls(struct worker *w, void *session) {
    struct call *next;
    for (struct call *c = w->calls; c; c = next) {
        next = c->next;
        if (c->session == session) {
            call_abort(c);
        }
    }
}

void gateway_session_refuse(struct gateway_session *s) {
    pthread_mutex_lock(&s->lock);
    s->is_closing = true;
    pthread_mutex_unlock(&s->lock);
}

/* True once no call is under way. */
static bool wait_idle(struct gateway_session *s, deadline_ms until) {
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    while (s->n_calls > 0 && rc != ETIMEDOUT) {
        rc = until == DEADLINE_NEVER ? pthread_cond_wait(&s->idle, &s->lock)
                                     : pthread_cond_timedwait(&s->idle, &s->lock, &at);
    }
    bool idle = s->n_calls == 0;
    pthread_mutex_unlock(&s->lock);
    return idle;
}

int gateway_session_close(struct gateway_session *s, deadline_ms until, struct err *err) {
    struct gateway *g = s->gateway;
    gateway_session_refuse(s);
    bool aborted = !wait_idle(s, until);
    if (aborted) {
        workers_call(g, abort_calls, s);
        (void)wait_idle(s, DEADLINE_NEVER); /* Their records are on their way. */
    }
    server_free(s->unix_server);
    unlink_session(s);
    workers_call(g, nothing, NULL); /* A handler that found it before has ended now. */
    int rc = session_journal_closing(s, aborted, err);
    session_free(s);
    return rc;
}
