/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "gateway/session_head.h"

static int parse_level(const char *text, enum capture_level *out, struct err *err) {
    static const enum capture_level all[] = {LEVEL_TEXT, LEVEL_LOGPROBS, LEVEL_TOKENS};
    if (!text) {
        *out = LEVEL_TOKENS;
        return 0;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(text, level_name(all[i])) == 0) {
            *out = all[i];
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "level: '%s' is none of: tokens, logprobs, text", text);
}

static int set_texts(struct target *t, const struct gateway_session_change *change) {
    int rc = 0;
    if (change->has_api_key) {
        rc = target_set(&t->api_key, change->api_key);
        rc = rc < 0 ? rc : target_set(&t->key_name, change->key_name);
    }
    if (rc == 0 && change->has_model) {
        rc = target_set(&t->model_override, change->model_override);
    }
    if (rc == 0 && change->has_policy_version) {
        buf_reset(&t->policy_version);
        struct sv version = sv_from(change->policy_version);
        rc = change->policy_is_json   ? buf_add_sv(&t->policy_version, version)
             : change->policy_version ? json_quote(version, &t->policy_version)
                                      : 0;
    }
    return rc;
}

int session_aim(struct gateway_session *s, const struct target *old,
                const struct gateway_session_change *change, struct target **out, struct err *err) {
    struct target *t = target_new(old);
    int rc = t ? set_texts(t, change) : ERR_NOMEM;
    if (rc < 0) {
        err_set(err, rc, "out of memory");
    }
    if (rc == 0 && change->has_level) {
        rc = parse_level(change->level, &t->level_max, err);
    }
    if (rc == 0 && change->has_upstreams) {
        endpoint_set_unref(t->endpoints);
        t->endpoints = NULL;
        if (change->upstreams) {
            rc = endpoint_set_new(&s->gateway->endpoints, change->upstreams, s->engine,
                                  &t->endpoints, err);
        }
    }
    if (rc < 0) {
        target_unref(t);
        return rc;
    }
    *out = t;
    return 0;
}

/* --- the journal --- */

static int put_text(struct buf *head, const char *name, const char *text) {
    int rc = buf_addf(head, ",\"%s\":", name);
    return rc < 0 ? rc : text ? json_quote(sv_from(text), head) : buf_adds(head, "null");
}

/* What is asked for at most; what is asked for in fact stands with each call. */
static enum capture_level level_of(const struct gateway_session *s, const struct target *t) {
    enum capture_level most = LEVEL_TOKENS;
    if (t->endpoints) {
        most = known_profile(&t->endpoints->list[0]->known)->rungs[0].level;
    }
    if (!s->edits) {
        return LEVEL_TEXT;
    }
    return t->level_max < most ? t->level_max : most;
}

/* Fields with a comma before each. */
static int put_target(const struct gateway_session *s, const struct target *t, struct buf *head) {
    const struct endpoint_set *set = t->endpoints;
    int rc = put_text(head, "upstream", set ? set->list[0]->url : NULL);
    rc = rc < 0 ? rc : buf_adds(head, ",\"upstreams\":");
    rc = rc < 0 ? rc : set && set->n > 1 ? endpoint_set_put(set, head) : buf_adds(head, "null");
    rc = rc < 0 ? rc : put_text(head, "key_name", t->key_name);
    rc = rc < 0 ? rc : put_text(head, "model", t->model_override);
    rc = rc < 0 ? rc
                : buf_addf(head, ",\"level\":\"%s\",\"level_max\":\"%s\"",
                           level_name(level_of(s, t)), level_name(t->level_max));
    return rc < 0 ? rc
                  : buf_addf(head, ",\"policy_version\":%s",
                             t->policy_version.len ? buf_cstr(&t->policy_version) : "null");
}

static int put_open_head(const struct gateway_session *s, struct buf *head) {
    int rc = buf_adds(head, "{\"token_sha256\":\"");
    for (size_t i = 0; rc == 0 && i < sizeof s->digest; i++) {
        rc = buf_addf(head, "%02x", s->digest[i]);
    }
    rc = rc < 0 ? rc : buf_addc(head, '"');
    rc = rc < 0 ? rc : put_target(s, s->target, head);
    if (rc == 0 && s->opener) {
        rc = buf_addf(head, ",\"opener\":%s", s->opener);
    }
    if (rc == 0 && !s->token) {
        rc = buf_addf(head, ",\"began\":%.17g,\"calls_before\":%llu", s->began,
                      (unsigned long long)s->calls_before);
    }
    return rc < 0
               ? rc
               : buf_addf(head, ",\"mode\":\"%s\"}", s->edits ? "transparent_proxy" : "black_box");
}

static int journal_head(const struct gateway_session *s, enum journal_type type,
                        const struct buf *head, struct err *err) {
    const struct journal_record r = {
        .type = type,
        .session = sv_from(s->name),
        .time = type == JOURNAL_SESSION_OPEN && s->token ? s->began : 0,
        .head = buf_sv(head),
    };
    return journal_append_wait(s->gateway->journal, &r, err);
}

int session_journal_opening(const struct gateway_session *s, struct err *err) {
    AUTO_BUF struct buf head = {0};
    if (!s->record) {
        return 0;
    }
    int rc = put_open_head(s, &head);
    return rc < 0 ? err_set(err, rc, "out of memory")
                  : journal_head(s, JOURNAL_SESSION_OPEN, &head, err);
}

int session_journal_closing(const struct gateway_session *s, bool aborted, struct err *err) {
    AUTO_BUF struct buf head = {0};
    if (!s->record) {
        return 0;
    }
    int rc = buf_addf(&head, "{\"calls\":%llu,\"reason\":\"%s\"}",
                      (unsigned long long)s->stats.calls, aborted ? "aborted" : "closed");
    return rc < 0 ? err_set(err, rc, "out of memory")
                  : journal_head(s, JOURNAL_SESSION_CLOSE, &head, err);
}

/* Only what is changed: readers take the rest from the heads before. */
static int put_change(const struct gateway_session *s, const struct target *t,
                      const struct gateway_session_change *c, struct buf *head) {
    bool only_policy = c->has_policy_version && !c->has_upstreams && !c->has_api_key &&
                       !c->has_model && !c->has_level;
    if (only_policy) {
        return buf_addf(head, "{\"policy_version\":%s}",
                        t->policy_version.len ? buf_cstr(&t->policy_version) : "null");
    }
    AUTO_BUF struct buf fields = {0};
    int rc = put_target(s, t, &fields);
    return rc < 0 ? rc : buf_addf(head, "{%s}", buf_cstr(&fields) + 1);
}

static int journal_change(const struct gateway_session *s, const struct target *t,
                          const struct gateway_session_change *change, struct err *err) {
    AUTO_BUF struct buf head = {0};
    if (!s->record) {
        return 0;
    }
    int rc = put_change(s, t, change, &head);
    return rc < 0 ? err_set(err, rc, "out of memory")
                  : journal_head(s, JOURNAL_SESSION_CHANGE, &head, err);
}

/* --- the change --- */

/* Under `changing`, so that the target that stands can be read without the lock. */
static int change_target(struct gateway_session *s, const struct gateway_session_change *change,
                         struct err *err) {
    struct target *fresh = NULL;
    int rc = session_aim(s, s->target, change, &fresh, err);
    rc = rc < 0 ? rc : journal_change(s, fresh, change, err);
    if (rc < 0) {
        target_unref(fresh);
        return rc;
    }
    pthread_mutex_lock(&s->lock);
    struct target *old = s->target;
    s->target = fresh;
    pthread_mutex_unlock(&s->lock);
    s->lacks_key = s->lacks_key && !change->has_api_key;
    target_unref(old);
    return 0;
}

int gateway_session_change(struct gateway_session *s, const struct gateway_session_change *change,
                           struct err *err) {
    pthread_mutex_lock(&s->changing);
    int rc = change_target(s, change, err);
    pthread_mutex_unlock(&s->changing);
    return rc;
}

int gateway_session_set_policy_version(struct gateway_session *s, const char *version,
                                       struct err *err) {
    const struct gateway_session_change change = {
        .has_policy_version = true,
        .policy_version = version,
    };
    return gateway_session_change(s, &change, err);
}

/* Its own, else the gateway's. NULL: neither. */
static struct endpoint_set *present_endpoints(const struct gateway_session *s,
                                              const struct target *t) {
    struct gateway *g = s->gateway;
    if (t->endpoints) {
        return endpoint_set_ref(t->endpoints);
    }
    pthread_rwlock_rdlock(&g->table);
    struct endpoint_set *set = endpoint_set_ref(g->default_endpoints);
    pthread_rwlock_unlock(&g->table);
    return set;
}

int gateway_session_put_settings(const struct gateway_session *s, struct buf *out) {
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&s->lock;
    pthread_mutex_lock(lock);
    struct target *t = target_ref(s->target);
    pthread_mutex_unlock(lock);
    struct endpoint_set *set = present_endpoints(s, t);
    int rc = buf_adds(out, "{\"upstreams\":");
    rc = rc < 0 ? rc : set ? endpoint_set_put(set, out) : buf_adds(out, "[]");
    rc = rc < 0 ? rc : put_text(out, "key_name", t->key_name);
    rc = rc < 0 ? rc : put_text(out, "model", t->model_override);
    rc = rc < 0 ? rc : buf_addf(out, ",\"level\":\"%s\"", level_name(level_of(s, t)));
    rc = rc < 0 ? rc
                : buf_addf(out, ",\"policy_version\":%s,\"lacks_key\":%s}",
                           t->policy_version.len ? buf_cstr(&t->policy_version) : "null",
                           s->lacks_key ? "true" : "false");
    endpoint_set_unref(set);
    target_unref(t);
    return rc;
}
