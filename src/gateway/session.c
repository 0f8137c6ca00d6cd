/* SPDX-License-Identifier: BSD-3-Clause */
/* What calls ask of their session, on any worker. */
#include "gateway/session.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct gateway_session *session_find(struct gateway *g, struct sv token) {
    unsigned char digest[SESSION_DIGEST_BYTES];
    const struct sv shown = {(const char *)digest, sizeof digest};
    SHA256((const unsigned char *)token.p, token.n, digest);
    pthread_rwlock_rdlock(&g->table);
    struct gateway_session *found = g->default_session;
    for (struct gateway_session *s = g->sessions; s; s = s->next) {
        if (sv_eq_constant_time((struct sv){(const char *)s->digest, sizeof s->digest}, shown)) {
            found = s;
        }
    }
    pthread_rwlock_unlock(&g->table);
    return found;
}

/* --- where a call goes --- */

static struct endpoint_set *endpoints_of(struct gateway_session *s) {
    struct gateway *g = s->gateway;
    if (s->target->endpoints) {
        return endpoint_set_ref(s->target->endpoints);
    }
    pthread_rwlock_rdlock(&g->table);
    struct endpoint_set *set = endpoint_set_ref(g->default_endpoints);
    pthread_rwlock_unlock(&g->table);
    return set;
}

/* Under the lock. */
static void stick(struct gateway_session *s, struct endpoint_set *set, struct endpoint *e) {
    if (s->stuck != e) {
        if (s->stuck) {
            s->stuck->sessions--;
        }
        e->sessions++;
        s->stuck = e;
    }
    if (s->stuck_in != set) {
        struct endpoint_set *old = s->stuck_in;
        s->stuck_in = endpoint_set_ref(set);
        endpoint_set_unref(old);
    }
}

/* Under the lock. A session's calls repeat its conversation: the place that has it in its prefix
 * cache answers them at a fraction of the cost. */
static struct endpoint *choose(struct gateway_session *s, struct endpoint_set *set) {
    struct endpoint *e = s->stuck;
    if (!e || !endpoint_set_has(set, e) || (set->n > 1 && e->refusals > 0)) {
        e = endpoint_set_pick(set);
        if (s->stuck && e->refusals > 0 && e != s->stuck) {
            /* Only to see whether it is back; if it is not, the call goes on elsewhere. */
            e->calls++;
            return e;
        }
    }
    stick(s, set, e);
    e->calls++;
    return e;
}

int session_enter(struct gateway_session *s, struct session_use *use, struct err *err) {
    *use = (struct session_use){0};
    pthread_mutex_lock(&s->lock);
    if (s->is_closing) {
        pthread_mutex_unlock(&s->lock);
        return err_set(err, ERR_STATE, "the session is closing");
    }
    use->endpoints = endpoints_of(s);
    if (!use->endpoints) {
        pthread_mutex_unlock(&s->lock);
        return err_set(err, ERR_UPSTREAM,
                       "no inference engine: neither the session nor the gateway names one");
    }
    use->endpoint = choose(s, use->endpoints);
    use->target = target_ref(s->target);
    s->n_calls++;
    s->used_ms = clock_ms();
    pthread_mutex_unlock(&s->lock);
    return 0;
}

void session_leave(struct gateway_session *s, struct session_use *use) {
    use->endpoint->calls--;
    target_unref(use->target);
    endpoint_set_unref(use->endpoints);
    *use = (struct session_use){0};
    pthread_mutex_lock(&s->lock);
    if (--s->n_calls == 0) {
        pthread_cond_broadcast(&s->idle);
    }
    pthread_mutex_unlock(&s->lock);
}

bool session_policy_changed(struct gateway_session *s, const struct session_use *use) {
    pthread_mutex_lock(&s->lock);
    bool changed = !sv_eq(buf_sv(&s->target->policy_version), buf_sv(&use->target->policy_version));
    pthread_mutex_unlock(&s->lock);
    return changed;
}

bool session_switch(struct gateway_session *s, struct session_use *use) {
    struct endpoint *old = use->endpoint;
    if (use->endpoints->n < 2) {
        return false;
    }
    struct endpoint *e = endpoint_set_pick(use->endpoints);
    if (e == old || endpoint_is_out(e)) {
        return false;
    }
    old->calls--;
    e->calls++;
    use->endpoint = e;
    pthread_mutex_lock(&s->lock);
    stick(s, use->endpoints, e);
    pthread_mutex_unlock(&s->lock);
    return true;
}

uint64_t session_next_call(struct gateway_session *s) {
    pthread_mutex_lock(&s->lock);
    uint64_t number = ++s->stats.calls;
    pthread_mutex_unlock(&s->lock);
    return number;
}

/* --- what became of calls --- */

bool session_is_broken(struct gateway_session *s, struct sv body, struct breaker_key *key) {
    *key = breaker_key_of(&s->breaker, body);
    if (!key->is_set) {
        return false;
    }
    pthread_mutex_lock(&s->lock);
    bool broken = breaker_is_open(&s->breaker, key, clock_ms());
    s->stats.loop_refusals += broken;
    pthread_mutex_unlock(&s->lock);
    return broken;
}

void session_note_body(struct gateway_session *s, const struct breaker_key *key, bool failed) {
    if (!key->is_set) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    breaker_note(&s->breaker, key, failed, clock_ms());
    pthread_mutex_unlock(&s->lock);
}

void session_note_capture_fault(struct gateway_session *s) {
    pthread_mutex_lock(&s->lock);
    s->stats.capture_fault = true;
    pthread_mutex_unlock(&s->lock);
}

void session_note_end(struct gateway_session *s, uint64_t completion_tokens) {
    pthread_mutex_lock(&s->lock);
    s->stats.calls_ended++;
    s->stats.completion_tokens += completion_tokens;
    pthread_mutex_unlock(&s->lock);
}

void session_note_answer(struct gateway_session *s, bool answered) {
    pthread_mutex_lock(&s->lock);
    if (answered) {
        s->stats.failed_in_a_row = 0;
    } else {
        s->stats.failed_calls++;
        if (s->stats.failed_in_a_row++ == 0) {
            s->failing_since_ms = clock_ms();
        }
    }
    pthread_mutex_unlock(&s->lock);
}

void session_free(struct gateway_session *s) {
    if (!s) {
        return;
    }
    if (s->stuck) {
        s->stuck->sessions--;
    }
    endpoint_set_unref(s->stuck_in);
    target_unref(s->target);
    free(s->name);
    free(s->opener);
    if (s->token) {
        explicit_bzero(s->token, strlen(s->token));
        free(s->token);
    }
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->changing);
    free(s);
}
