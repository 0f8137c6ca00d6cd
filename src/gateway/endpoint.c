/* SPDX-License-Identifier: BSD-3-Clause */
#include "gateway/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "net/tls.h"
#include "net/url.h"

void endpoints_init(struct endpoints *t) {
    *t = (struct endpoints){0};
    pthread_mutex_init(&t->mutex, NULL);
}

void endpoints_deinit(struct endpoints *t) {
    BUG_IF(t->first);
    tls_context_free(t->tls);
    pthread_mutex_destroy(&t->mutex);
}

static void release(struct endpoint *e) {
    if (e) {
        free(e->url);
        free(e->host);
        free(e->host_field);
        free(e->chat_target);
        free(e->models_target);
        known_deinit(&e->known);
        free(e);
    }
}

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

static int fill(struct endpoints *t, struct endpoint *e, struct url *url, const char *text,
                struct err *err) {
    AUTO_BUF struct buf host = {0};
    int rc = url->tls && !t->tls ? tls_context_new(NULL, &t->tls, err) : 0;
    if (rc < 0) {
        return rc;
    }
    e->tls = url->tls ? t->tls : NULL;
    rc = url_put_host(url, &host);
    rc = rc < 0 ? rc : join(url, "/chat/completions", &e->chat_target);
    rc = rc < 0 ? rc : join(url, "/models", &e->models_target);
    e->host_field = rc < 0 ? NULL : buf_take(&host);
    e->url = mem_strdup(text);
    if (!e->host_field || !e->url) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    known_init(&e->known, e->stated ? e->stated : engine_at(sv_from(url->host)));
    e->host = TAKE(url->host);
    e->port = url->port;
    return 0;
}

/* Under the mutex. */
static int find_or_make(struct endpoints *t, const char *text, enum engine stated,
                        struct endpoint **out, struct err *err) {
    struct url url = {0};
    for (struct endpoint *e = t->first; e; e = e->next) {
        if (e->stated == stated && strcmp(e->url, text) == 0) {
            *out = e;
            return 0;
        }
    }
    struct endpoint *e = calloc(1, sizeof *e);
    int rc = e ? url_parse(sv_from(text), &url, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (rc < 0) {
        err_wrap(err, "upstream");
    } else {
        e->stated = stated;
        rc = fill(t, e, &url, text, err);
    }
    url_deinit(&url);
    if (rc < 0) {
        release(e);
        return rc;
    }
    e->next = t->first;
    t->first = e;
    *out = e;
    return 0;
}

/* Under the mutex. */
static void drop(struct endpoints *t, struct endpoint *e) {
    if (e->users > 0) {
        return;
    }
    struct endpoint **at = &t->first;
    while (*at != e) {
        at = &(*at)->next;
    }
    *at = e->next;
    release(e);
}

static void leave(struct endpoint_set *s) {
    struct endpoints *t = s->table;
    pthread_mutex_lock(&t->mutex);
    for (unsigned i = 0; i < s->n; i++) {
        s->list[i]->users--;
        drop(t, s->list[i]);
    }
    pthread_mutex_unlock(&t->mutex);
    free(s);
}

static int add(struct endpoint_set *s, const char *url, enum engine stated, struct err *err) {
    struct endpoint *e = NULL;
    pthread_mutex_lock(&s->table->mutex);
    int rc = find_or_make(s->table, url, stated, &e, err);
    if (rc == 0 && !endpoint_set_has(s, e)) {
        e->users++;
        s->list[s->n++] = e;
    }
    pthread_mutex_unlock(&s->table->mutex);
    return rc;
}

int endpoint_set_new(struct endpoints *t, const char *const *urls, enum engine stated,
                     struct endpoint_set **out, struct err *err) {
    size_t n = 0;
    while (urls[n]) {
        n++;
    }
    if (n == 0 || n > ENDPOINT_SET_MAX) {
        return err_set(err, ERR_INPUT, "want 1 to %u upstreams, got %zu", ENDPOINT_SET_MAX, n);
    }
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): a list of pointers. */
    struct endpoint_set *s = calloc(1, sizeof *s + n * sizeof(struct endpoint *));
    if (!s) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    s->table = t;
    s->users = 1;
    for (size_t i = 0; i < n; i++) {
        int rc = add(s, urls[i], stated ? stated : t->engine, err);
        if (rc < 0) {
            leave(s);
            return rc;
        }
    }
    *out = s;
    return 0;
}

struct endpoint_set *endpoint_set_ref(struct endpoint_set *s) {
    if (s) {
        s->users++;
    }
    return s;
}

void endpoint_set_unref(struct endpoint_set *s) {
    if (s && --s->users == 0) {
        leave(s);
    }
}

bool endpoint_set_has(const struct endpoint_set *s, const struct endpoint *e) {
    for (unsigned i = 0; i < s->n; i++) {
        if (s->list[i] == e) {
            return true;
        }
    }
    return false;
}

bool endpoint_is_out(const struct endpoint *e) {
    return e->refusals > 0 && e->out_until_ms > clock_ms();
}

static int64_t out_ms(unsigned refusals) {
    int64_t ms = ENDPOINT_OUT_MS;
    for (unsigned i = 1; i < refusals && ms < ENDPOINT_OUT_MAX_MS; i++) {
        ms *= 2;
    }
    return ms < ENDPOINT_OUT_MAX_MS ? ms : ENDPOINT_OUT_MAX_MS;
}

void endpoint_note(struct endpoint *e, bool connected) {
    if (!connected) {
        e->out_until_ms = clock_ms() + out_ms(++e->refusals);
    } else if (e->refusals > 0) {
        e->refusals = 0;
    }
}

/* Less is better: calls under way, then sessions that will make more. */
static bool is_less_busy(const struct endpoint *a, const struct endpoint *b) {
    unsigned x = a->calls;
    unsigned y = b->calls;
    return x < y || (x == y && a->sessions < b->sessions);
}

struct endpoint *endpoint_set_pick(struct endpoint_set *s) {
    int64_t now = clock_ms();
    struct endpoint *best = NULL;
    struct endpoint *first_due = s->list[0];
    for (unsigned i = 0; i < s->n; i++) {
        struct endpoint *e = s->list[i];
        int64_t until = e->refusals > 0 ? e->out_until_ms : 0;
        if (until > 0 && until <= now && s->n > 1 &&
            atomic_compare_exchange_strong(&e->out_until_ms, &until, now + out_ms(e->refusals))) {
            return e; /* This call finds out whether it is back. */
        }
        if (until <= now && (!best || is_less_busy(e, best))) {
            best = e;
        }
        if (until < first_due->out_until_ms) {
            first_due = e;
        }
    }
    return best ? best : first_due;
}

int endpoint_set_put(const struct endpoint_set *s, struct buf *out) {
    int rc = buf_addc(out, '[');
    for (unsigned i = 0; i < s->n; i++) {
        rc = rc < 0 || i == 0 ? rc : buf_addc(out, ',');
        rc = rc < 0 ? rc : json_quote(sv_from(s->list[i]->url), out);
    }
    return rc < 0 ? rc : buf_addc(out, ']');
}
