/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a session: opened, listened for, asked about, closed. Any thread. */
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
#include "net/tls.h"
#include "net/url.h"

/* Thirty seconds cover a machine that wakes up, and an agent does not wait longer for a word. */
#define SESSION_CONNECT_MS 30000
/* Agents that wait longer between two tries do not load an engine. */
#define SESSION_LOOP_MS 60000

/* "<base>/chat/completions" when the base ends in /v1, else "<base>/v1/chat/completions". */
static int join(const struct url *base, const char *route, char **out) {
    AUTO_BUF struct buf target = {0};
    AUTO_BUF struct buf full = {0};
    struct sv path = sv_from(base->path);
    while (sv_ends_with(path, SV("/"))) {
        path.n--;
    }
    int rc = sv_ends_with(path, SV("/v1")) ? 0 : buf_adds(&full, "/v1");
    rc = rc < 0 ? rc : buf_adds(&full, route);
    rc = rc < 0 ? rc : url_join(base, buf_sv(&full), &target);
    *out = rc < 0 ? NULL : buf_take(&target);
    return *out ? 0 : ERR_NOMEM;
}

static bool is_openai(struct sv host) {
    return sv_eq(host, SV("api.openai.com")) || sv_ends_with(host, SV(".openai.azure.com"));
}

static int set_upstream(struct gateway_session *s, const char *text, struct err *err) {
    struct url url = {0};
    AUTO_BUF struct buf host = {0};
    int rc = url_parse(sv_from(text), &url, err);
    if (rc < 0) {
        return err_wrap(err, "upstream");
    }
    struct gateway *g = s->gateway;
    if (url.tls) {
        pthread_mutex_lock(&g->mutex);
        rc = g->tls ? 0 : tls_context_new(NULL, &g->tls, err);
        s->tls = g->tls;
        pthread_mutex_unlock(&g->mutex);
    }
    rc = rc < 0 ? rc : url_put_host(&url, &host);
    rc = rc < 0 ? rc : join(&url, "/chat/completions", &s->chat_target);
    rc = rc < 0 ? rc : join(&url, "/models", &s->models_target);
    if (rc == 0) {
        s->is_openai = is_openai(sv_from(url.host));
        s->host = TAKE(url.host);
        s->port = url.port;
        s->host_field = buf_take(&host);
        s->upstream_url = mem_strdup(text);
    }
    url_deinit(&url);
    return rc;
}

static int copy(const char *from, char **to) {
    *to = mem_strdup(from);
    return from && !*to ? ERR_NOMEM : 0;
}

static int fill(struct gateway_session *s, const struct gateway_session_options *o,
                struct err *err) {
    s->edits = o->edits;
    s->record = o->record;
    s->disable_thinking = o->disable_thinking;
    s->neutral_sampling = o->neutral_sampling;
    s->breaker.failures_max = o->loop_break_calls;
    s->breaker.within_ms =
        o->loop_break_s > 0 ? (int64_t)(o->loop_break_s * 1000) : SESSION_LOOP_MS;
    s->top_logprobs = o->top_logprobs;
    s->max_tokens_cap = o->max_tokens_cap;
    s->header_timeout_ms = (int64_t)(o->header_timeout_s * 1000);
    s->connect_timeout_ms =
        o->connect_timeout_s > 0 ? (int64_t)(o->connect_timeout_s * 1000) : SESSION_CONNECT_MS;
    rand_hex(s->token, SESSION_TOKEN_BYTES);
    SHA256((const unsigned char *)s->token, strlen(s->token), s->digest);
    int rc = copy(o->name, &s->name);
    rc = rc < 0 ? rc : copy(o->api_key, &s->api_key);
    rc = rc < 0 ? rc : copy(o->key_name, &s->key_name);
    rc = rc < 0 ? rc : copy(o->model_override, &s->model_override);
    rc = rc < 0 || !o->policy_version ? rc
                                      : json_quote(sv_from(o->policy_version), &s->policy_version);
    rc = rc < 0 ? rc : set_upstream(s, o->upstream_url, err);
    return rc < 0 && err && err->code == 0 ? err_set(err, rc, "out of memory") : rc;
}

static int put_text(struct buf *head, const char *name, const char *text) {
    int rc = buf_addf(head, ",\"%s\":", name);
    return rc < 0 ? rc : text ? json_quote(sv_from(text), head) : buf_adds(head, "null");
}

static int put_open_head(const struct gateway_session *s, struct buf *head) {
    int rc = buf_adds(head, "{\"token_sha256\":\"");
    for (size_t i = 0; rc == 0 && i < sizeof s->digest; i++) {
        rc = buf_addf(head, "%02x", s->digest[i]);
    }
    rc = rc < 0 ? rc : buf_addc(head, '"');
    rc = rc < 0 ? rc : put_text(head, "upstream", s->upstream_url);
    rc = rc < 0 ? rc : put_text(head, "key_name", s->key_name);
    rc = rc < 0 ? rc : put_text(head, "model", s->model_override);
    if (rc == 0 && s->policy_version.len > 0) {
        rc = buf_addf(head, ",\"policy_version\":%s", buf_cstr(&s->policy_version));
    }
    return rc < 0 ? rc
                  : buf_addf(head, ",\"mode\":\"%s\",\"level\":\"%s\"}",
                             s->edits ? "transparent_proxy" : "black_box",
                             !s->edits      ? "text"
                             : s->is_openai ? "logprobs"
                                            : "tokens");
}

static int journal_head(const struct gateway_session *s, enum journal_type type,
                        const struct buf *head, struct err *err) {
    const struct journal_record r = {
        .type = type,
        .session = sv_from(s->name),
        .head = buf_sv(head),
    };
    return journal_append_wait(s->gateway->journal, &r, err);
}

static int journal_opening(const struct gateway_session *s, struct err *err) {
    AUTO_BUF struct buf head = {0};
    if (!s->record) {
        return 0;
    }
    int rc = put_open_head(s, &head);
    return rc < 0 ? err_set(err, rc, "out of memory")
                  : journal_head(s, JOURNAL_SESSION_OPEN, &head, err);
}

static void link_session(void *arg) {
    struct gateway_session *s = arg;
    s->next = s->gateway->sessions;
    s->gateway->sessions = s;
}

int gateway_session_open(struct gateway *g, const struct gateway_session_options *o,
                         struct gateway_session **out, struct err *err) {
    pthread_condattr_t attr;
    struct err local = {0};
    struct gateway_session *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->idle, &attr);
    pthread_condattr_destroy(&attr);
    s->gateway = g;
    err = err ? err : &local;
    err->code = 0;
    int rc = fill(s, o, err);
    rc = rc < 0 ? rc : journal_opening(s, err);
    if (rc < 0) {
        session_free(s);
        return rc;
    }
    loop_call(g->loop, link_session, s);
    *out = s;
    return 0;
}

struct default_task {
    struct gateway *g;
    struct gateway_session *s;
};

static void set_default(void *arg) {
    struct default_task *t = arg;
    t->g->default_session = t->s;
}

void gateway_set_default_session(struct gateway *g, struct gateway_session *s) {
    loop_call(g->loop, set_default, &(struct default_task){g, s});
}

struct policy_task {
    struct gateway_session *s;
    struct buf *fresh;
};

static void swap_policy(void *arg) {
    struct policy_task *t = arg;
    struct buf old = t->s->policy_version;
    t->s->policy_version = *t->fresh;
    *t->fresh = old;
}

int gateway_session_set_policy_version(struct gateway_session *s, const char *version,
                                       struct err *err) {
    AUTO_BUF struct buf head = {0};
    AUTO_BUF struct buf fresh = {0};
    int rc = version ? json_quote(sv_from(version), &fresh) : 0;
    rc = rc < 0 ? rc
                : buf_addf(&head, "{\"policy_version\":%s}", version ? buf_cstr(&fresh) : "null");
    if (rc < 0) {
        return err_set(err, rc, "out of memory");
    }
    rc = s->record ? journal_head(s, JOURNAL_SESSION_CHANGE, &head, err) : 0;
    if (rc == 0) {
        loop_call(s->gateway->loop, swap_policy, &(struct policy_task){s, &fresh});
    }
    return rc;
}

const char *gateway_session_token(const struct gateway_session *s) {
    return s->token;
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
    return server_new(s->gateway->loop, &o, &s->unix_server, err);
}

struct stats_task {
    const struct gateway_session *s;
    struct gateway_session_stats *out;
};

static void read_stats(void *arg) {
    const struct stats_task *t = arg;
    *t->out = t->s->stats;
    if (t->out->failed_in_a_row > 0) {
        t->out->failing_for_s = (double)(clock_ms() - t->s->failing_since_ms) / 1000;
    }
}

void gateway_session_stats(const struct gateway_session *s, struct gateway_session_stats *out) {
    struct stats_task task = {s, out};
    loop_call(s->gateway->loop, read_stats, &task);
}

static void begin_closing(void *arg) {
    struct gateway_session *s = arg;
    s->is_closing = true;
}

static void abort_calls(void *arg) {
    struct gateway_session *s = arg;
    struct call *next;
    for (struct call *c = s->calls; c; c = next) {
        next = c->next;
        call_abort(c);
    }
}

static void unlink_session(void *arg) {
    struct gateway_session *s = arg;
    struct gateway_session **at = &s->gateway->sessions;
    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    if (s->gateway->default_session == s) {
        s->gateway->default_session = NULL;
    }
}

/* True once no call is under way. */
static bool wait_idle(struct gateway_session *s, deadline_ms until) {
    struct gateway *g = s->gateway;
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
    int rc = 0;
    pthread_mutex_lock(&g->mutex);
    while (s->n_calls > 0 && rc != ETIMEDOUT) {
        rc = until == DEADLINE_NEVER ? pthread_cond_wait(&s->idle, &g->mutex)
                                     : pthread_cond_timedwait(&s->idle, &g->mutex, &at);
    }
    bool idle = s->n_calls == 0;
    pthread_mutex_unlock(&g->mutex);
    return idle;
}

static int journal_closing(const struct gateway_session *s, bool aborted, struct err *err) {
    AUTO_BUF struct buf head = {0};
    if (!s->record) {
        return 0;
    }
    int rc = buf_addf(&head, "{\"calls\":%llu,\"reason\":\"%s\"}",
                      (unsigned long long)s->stats.calls, aborted ? "aborted" : "closed");
    return rc < 0 ? err_set(err, rc, "out of memory")
                  : journal_head(s, JOURNAL_SESSION_CLOSE, &head, err);
}

int gateway_session_close(struct gateway_session *s, deadline_ms until, struct err *err) {
    struct loop *l = s->gateway->loop;
    loop_call(l, begin_closing, s);
    bool aborted = !wait_idle(s, until);
    if (aborted) {
        loop_call(l, abort_calls, s);
        (void)wait_idle(s, DEADLINE_NEVER); /* Their records are on their way. */
    }
    server_free(s->unix_server);
    loop_call(l, unlink_session, s);
    int rc = journal_closing(s, aborted, err);
    session_free(s);
    return rc;
}
