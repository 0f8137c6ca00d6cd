/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions as an admin opens, reads and changes them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/rand.h"
#include "server/capture/server.h"

#define ID_MAX 127 /* Of a session's id, as OpenEnv's; the journal's names have as many. */
#define ID_BYTES 12

static const char *const create_fields[] = {
    "session_id",     "metadata", "llm_url", "llm_urls",         "model", "api_key", "auth_header",
    "policy_version", "level",    "name",    "neutral_sampling", NULL};
static const char *const change_fields[] = {"llm_url", "llm_urls",       "model", "api_key",
                                            "level",   "policy_version", NULL};

static bool is_id(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || n > ID_MAX || !isalnum((unsigned char)text[0])) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr("_.-", text[i])) {
            return false;
        }
    }
    return true;
}

static int check_id(const char *field, const char *text, struct err *err) {
    if (is_id(text)) {
        return 0;
    }
    return err_set(err, ERR_INPUT,
                   "%s: want 1 to %d letters, digits, '_', '.' or '-', a letter or digit first",
                   field, ID_MAX);
}

static void fresh_id(char out[2 * ID_BYTES + 2]) {
    out[0] = 's';
    rand_hex(out + 1, ID_BYTES);
}

/* --- finding --- */

/* A restored session whose id is its token is known by the token's digest. */
static bool is_called(const struct managed *m, struct sv id) {
    return m->id ? sv_eq_constant_time(sv_from(m->id), id)
                 : gateway_session_has_token(m->session, id);
}

/* Under the mutex. */
static struct managed *find(struct capture *c, struct sv id) {
    for (struct managed *m = c->managed; m; m = m->next) {
        if (!m->is_ending && is_called(m, id)) {
            return m;
        }
    }
    return NULL;
}

struct managed *sessions_claim(struct capture *c, struct sv id) {
    pthread_mutex_lock(&c->mutex);
    struct managed *m = find(c, id);
    if (m) {
        m->is_ending = true;
    }
    pthread_mutex_unlock(&c->mutex);
    return m;
}

struct managed *sessions_claim_any(struct capture *c) {
    struct managed *m;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        m = c->managed;
        while (m && m->is_ending) {
            m = m->next;
        }
        if (m || !c->managed) {
            break;
        }
        pthread_cond_wait(&c->unused, &c->mutex); /* Others end those, or still open them. */
    }
    if (m) {
        m->is_ending = true;
    }
    pthread_mutex_unlock(&c->mutex);
    return m;
}

struct managed *sessions_use(struct capture *c, struct sv id) {
    pthread_mutex_lock(&c->mutex);
    struct managed *m = find(c, id);
    if (m) {
        m->users++;
    }
    pthread_mutex_unlock(&c->mutex);
    return m;
}

void sessions_unuse(struct capture *c, struct managed *m) {
    pthread_mutex_lock(&c->mutex);
    m->users--;
    pthread_cond_broadcast(&c->unused);
    pthread_mutex_unlock(&c->mutex);
}

unsigned sessions_count(struct capture *c) {
    unsigned n = 0;
    pthread_mutex_lock(&c->mutex);
    for (const struct managed *m = c->managed; m; m = m->next) {
        n += !m->is_ending;
    }
    pthread_mutex_unlock(&c->mutex);
    return n;
}

int sessions_unknown(struct err *err) {
    return err_set(err, ERR_NOT_FOUND, "unknown session");
}

/* --- what is said of one --- */

/* Adds what the session is set to, in the words of OpenEnv's capture server. */
static int put_settings(const struct managed *m, json_t *out, struct err *err) {
    AUTO_BUF struct buf text = {0};
    AUTO_JSON json_t *set = NULL;
    int rc = gateway_session_put_settings(m->session, &text);
    rc = rc < 0 ? err_set(err, rc, "out of memory")
                : json_parse(buf_sv(&text), "settings", &set, err);
    if (rc < 0) {
        return rc;
    }
    const char *level = json_string_value(json_object_get(set, "level"));
    json_t *urls = json_object_get(set, "upstreams");
    json_t *more = json_pack(
        "{s:s?, s:s, s:O, s:O, s:O, s:O, s:O, s:O?}", "capture_level", level, "rollout_type",
        level && strcmp(level, "tokens") == 0 ? "train" : "eval", "model",
        json_object_get(set, "model"), "policy_version", json_object_get(set, "policy_version"),
        "llm_urls", urls, "key_name", json_object_get(set, "key_name"), "lacks_key",
        json_object_get(set, "lacks_key"), "llm_url", json_array_get(urls, 0));
    if (!more) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    rc = json_object_update(out, more);
    json_decref(more);
    return rc < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

/* The metadata is copied: an answer outlives the session, and is freed by another thread. */
static json_t *describe(const struct managed *m) {
    struct gateway_session_stats s = {0};
    gateway_session_stats(m->session, &s);
    return json_pack("{s:s?, s:s, s:f, s:I, s:I, s:i, s:I, s:b, s:o}", "session_id", m->id, "name",
                     m->name, "idle_s", s.idle_s, "upstream_errors", (json_int_t)s.failed_calls,
                     "n_turns", (json_int_t)s.calls, "n_open", (int)s.calls_open,
                     "completion_tokens", (json_int_t)s.completion_tokens, "capture_fault",
                     s.capture_fault, "metadata", json_deep_copy(m->metadata));
}

static int show(const struct managed *m, int status, bool with_token, struct reply *out,
                struct err *err) {
    AUTO_JSON json_t *value = describe(m);
    int rc = value ? put_settings(m, value, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && with_token &&
        json_object_set_new(value, "token", json_string(gateway_session_token(m->session))) < 0) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    return rc < 0 ? rc : reply_json(out, status, TAKE(value), err);
}

/* --- opening --- */

struct wanted {
    json_t *body;
    const char **upstreams;
    const char *id, *name, *model, *api_key, *level;
    struct buf policy; /* A JSON value; empty: not named. */
    bool neutral_sampling;
    const json_t *metadata;
};

static void wanted_deinit(struct wanted *w) {
    json_decref(w->body);
    free(w->upstreams);
    buf_deinit(&w->policy);
}

static int read_policy(const json_t *body, struct buf *out, struct err *err) {
    const json_t *value = json_object_get(body, "policy_version");
    if (!value) {
        return 0;
    }
    if (!json_is_string(value) && !json_is_integer(value) && !json_is_null(value)) {
        return err_set(err, ERR_INPUT, "policy_version: want a text, a whole number or null");
    }
    return json_compact(value, out) < 0 ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static int read_wanted(const struct request_view *r, const char *const *fields, struct wanted *w,
                       struct err *err) {
    const char *auth = NULL;
    int rc = body_object(r, fields, &w->body, err);
    const struct json_at at = {w->body, "body"};
    rc = rc < 0 ? rc : json_get_string(at, "session_id", &w->id, err);
    rc = rc < 0 ? rc : json_get_string(at, "name", &w->name, err);
    rc = rc < 0 ? rc : json_get_string(at, "model", &w->model, err);
    rc = rc < 0 ? rc : json_get_string(at, "api_key", &w->api_key, err);
    rc = rc < 0 ? rc : json_get_string(at, "level", &w->level, err);
    rc = rc < 0 ? rc : json_get_string(at, "auth_header", &auth, err);
    rc = rc < 0 ? rc : json_get_bool(at, "neutral_sampling", &w->neutral_sampling, err);
    rc = rc < 0 ? rc : json_get_object(at, "metadata", &w->metadata, err);
    rc = rc < 0 ? rc : upstreams_of(w->body, &w->upstreams, err);
    rc = rc < 0 ? rc : read_policy(w->body, &w->policy, err);
    if (rc == 0 && auth && strcasecmp(auth, "authorization") != 0) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "auth_header: only 'Authorization' (as a bearer key) is sent, not '%s'", auth);
    }
    rc = rc < 0 || !w->id ? rc : check_id("session_id", w->id, err);
    return rc < 0 || !w->name ? rc : check_id("name", w->name, err);
}

void managed_free(struct managed *m) {
    if (m) {
        free(m->id);
        free(m->name);
        json_decref(m->metadata);
        free(m);
    }
}

/* Adds it, unless its id or name is another's. */
static int link_managed(struct capture *c, struct managed *m, struct err *err) {
    int rc = 0;
    pthread_mutex_lock(&c->mutex);
    for (const struct managed *other = c->managed; other && rc == 0; other = other->next) {
        if (is_called(other, sv_from(m->id)) || strcmp(other->name, m->name) == 0) {
            rc = err_set(err, ERR_EXISTS, "there is a session of this id or name: end it first");
        }
    }
    if (rc == 0) {
        m->next = c->managed;
        c->managed = m;
    }
    pthread_mutex_unlock(&c->mutex);
    return rc;
}

void sessions_unlink(struct capture *c, const struct managed *m) {
    pthread_mutex_lock(&c->mutex);
    struct managed **at = &c->managed;
    while (*at != m) {
        at = &(*at)->next;
    }
    *at = m->next;
    pthread_cond_broadcast(&c->unused);
    pthread_mutex_unlock(&c->mutex);
}

static int make_managed(struct capture *c, const struct wanted *w, struct managed **out,
                        struct err *err) {
    char id[2 * ID_BYTES + 2];
    char name[2 * ID_BYTES + 2];
    struct managed *m = calloc(1, sizeof *m);
    fresh_id(id);
    fresh_id(name);
    if (m) {
        m->id = mem_strdup(w->id ? w->id : id);
        m->name = mem_strdup(w->name ? w->name : c->o->openenv_sessions || !w->id ? name : w->id);
        m->metadata = w->metadata ? json_deep_copy(w->metadata) : json_object();
        m->is_ending = true; /* Not to be found until it is open. */
    }
    if (!m || !m->id || !m->name || !m->metadata) {
        managed_free(m);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    *out = m;
    return 0;
}

/* What its record has for who restores it. An id that is a token is a secret. */
static int put_opener(const struct capture *c, const struct managed *m, bool neutral_sampling,
                      struct buf *out) {
    AUTO_JSON json_t *opener =
        json_pack("{s:s?, s:O, s:b}", "session_id", c->o->openenv_sessions ? NULL : m->id,
                  "metadata", m->metadata, "neutral_sampling", (int)neutral_sampling);
    return opener ? json_compact(opener, out) : ERR_NOMEM;
}

static int open_session(struct capture *c, const struct wanted *w, struct managed *m,
                        struct err *err) {
    AUTO_BUF struct buf opener = {0};
    struct gateway_session_options so = c->o->session;
    so.name = m->name;
    so.token = c->o->openenv_sessions ? m->id : NULL;
    so.upstreams = w->upstreams;
    so.neutral_sampling = so.neutral_sampling || w->neutral_sampling;
    so.level = w->level ? w->level : so.level;
    so.model_override = w->model ? w->model : so.model_override;
    /* The gateway's own key is for its own engines, and must not reach another. */
    if (w->api_key || w->upstreams) {
        so.api_key = w->api_key;
        so.key_name = w->api_key ? MANAGED_KEY : NULL;
    }
    so.policy_version = w->policy.len ? buf_cstr(&w->policy) : so.policy_version;
    so.policy_is_json = w->policy.len > 0;
    if (put_opener(c, m, so.neutral_sampling, &opener) < 0) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    so.opener = buf_cstr(&opener);
    return gateway_session_open(c->gateway, &so, &m->session, err);
}

static int create(struct capture *c, const struct wanted *w, struct reply *out, struct err *err) {
    struct managed *m = NULL;
    int rc = make_managed(c, w, &m, err);
    if (rc < 0) {
        return rc;
    }
    rc = link_managed(c, m, err);
    if (rc < 0) {
        managed_free(m);
        return rc;
    }
    rc = open_session(c, w, m, err);
    if (rc < 0) {
        sessions_unlink(c, m);
        managed_free(m);
        return rc;
    }
    pthread_mutex_lock(&c->mutex);
    m->is_ending = false;
    m->users++;
    pthread_cond_broadcast(&c->unused);
    pthread_mutex_unlock(&c->mutex);
    rc = show(m, 200, /* with_token= */ true, out, err);
    sessions_unuse(c, m);
    return rc;
}

int sessions_create(struct capture *c, const struct request_view *r, struct reply *out,
                    struct err *err) {
    struct wanted w = {0};
    int rc = read_wanted(r, create_fields, &w, err);
    rc = rc < 0 ? rc : create(c, &w, out, err);
    wanted_deinit(&w);
    return rc;
}

/* --- reading and changing --- */

int sessions_list(struct capture *c, struct reply *out, struct err *err) {
    AUTO_JSON json_t *list = json_array();
    int rc = list ? 0 : ERR_NOMEM;
    pthread_mutex_lock(&c->mutex);
    for (const struct managed *m = c->managed; m && rc == 0; m = m->next) {
        rc = m->is_ending ? 0 : json_array_insert_new(list, 0, describe(m));
    }
    pthread_mutex_unlock(&c->mutex);
    return rc < 0 ? err_set(err, ERR_NOMEM, "out of memory")
                  : reply_json(out, 200, json_pack("{s:o}", "sessions", TAKE(list)), err);
}

int sessions_show(struct capture *c, struct sv id, struct reply *out, struct err *err) {
    struct managed *m = sessions_use(c, id);
    if (!m) {
        return sessions_unknown(err);
    }
    int rc = show(m, 200, /* with_token= */ false, out, err);
    sessions_unuse(c, m);
    return rc;
}

static int change(struct managed *m, const struct wanted *w, struct err *err) {
    bool has_key = json_object_get(w->body, "api_key");
    const struct gateway_session_change change = {
        .has_policy_version = w->policy.len > 0,
        .policy_version = buf_cstr(&w->policy),
        .policy_is_json = true,
        .has_upstreams = w->upstreams,
        .upstreams = w->upstreams,
        /* As at the opening: a key goes to the engine that it was named for, and to no other. */
        .has_api_key = has_key || w->upstreams,
        .api_key = w->api_key,
        .key_name = w->api_key ? MANAGED_KEY : NULL,
        .has_model = json_object_get(w->body, "model"),
        .model_override = w->model,
        .has_level = json_object_get(w->body, "level"),
        .level = w->level,
    };
    return gateway_session_change(m->session, &change, err);
}

int sessions_change(struct capture *c, struct sv id, const struct request_view *r,
                    struct reply *out, struct err *err) {
    struct wanted w = {0};
    struct managed *m = sessions_use(c, id);
    if (!m) {
        return sessions_unknown(err);
    }
    int rc = read_wanted(r, change_fields, &w, err);
    rc = rc < 0 ? rc : change(m, &w, err);
    rc = rc < 0 ? rc : show(m, 200, /* with_token= */ false, out, err);
    wanted_deinit(&w);
    sessions_unuse(c, m);
    return rc;
}
