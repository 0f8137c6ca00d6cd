/* SPDX-License-Identifier: BSD-3-Clause */
/* How a session ends: as an admin wants it, or with the program. */
#include "base/log.h"
#include "server/capture/server.h"

#define WAIT_MAX_S 3600 /* Of an end that lets calls go on: longer than any call. */
#define LOOK_MS 20      /* Between two looks whether the program ends before the wait does. */

/* How an admin wants it. */
struct ending {
    double wait_s;
    bool forget; /* Its records are not needed any more. */
};

static int read_field(struct sv field, struct ending *out, struct err *err) {
    unsigned long long n = 0;
    const struct sv wait = SV("wait_s=");
    const struct sv forget = SV("forget=");
    if (sv_starts_with(field, wait) && sv_parse_u64(sv_cut(field, wait.n), WAIT_MAX_S, &n)) {
        out->wait_s = (double)n;
        return 0;
    }
    if (sv_starts_with(field, forget) && sv_parse_u64(sv_cut(field, forget.n), 1, &n)) {
        out->forget = n == 1;
        return 0;
    }
    return err_set(err, ERR_INPUT,
                   "want no query but 'wait_s', 0 to %d seconds, and 'forget', 0 or 1", WAIT_MAX_S);
}

static int read_ending(struct sv query, struct ending *out, struct err *err) {
    while (query.n > 0) {
        size_t n = sv_find(query, SV("&"));
        struct sv field = {query.p, n == (size_t)-1 ? query.n : n};
        int rc = read_field(field, out, err);
        if (rc < 0) {
            return rc;
        }
        query = sv_cut(query, field.n + 1);
    }
    return 0;
}

/* A session that was restored has records of an earlier process too: if only its later ones went,
 * the next start would take it for one to restore. */
static bool forget(struct capture *c, const struct managed *m) {
    struct err err = {0};
    if (m->is_restored || journal_release(c->journal, sv_from(m->name), &err) < 0) {
        log_warning("the records of the session '%s' stay: %s", m->name,
                    err.code ? err.msg : "some are of an earlier process");
        return false;
    }
    return true;
}

/* The program's own end does not wait for an admin's patience. */
static void await_calls(const struct capture *c, const struct managed *m, deadline_ms until) {
    struct gateway_session_stats s;
    for (;;) {
        gateway_session_stats(m->session, &s);
        if (s.calls_open == 0 || deadline_passed(until) || deadline_passed(c->end_by)) {
            return;
        }
        clock_sleep_ms(LOOK_MS);
    }
}

/* The session was claimed; frees nothing. */
static int end(struct capture *c, struct managed *m, deadline_ms until, struct err *err) {
    pthread_mutex_lock(&c->mutex);
    while (m->users > 0) {
        pthread_cond_wait(&c->unused, &c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
    gateway_session_refuse(m->session);
    await_calls(c, m, until);
    return gateway_session_close(m->session, deadline_in_ms(0), err);
}

static void drop(struct capture *c, struct managed *m) {
    journal_forget(c->journal, sv_from(m->name));
    sessions_unlink(c, m);
    managed_free(m);
}

int sessions_end(struct capture *c, struct sv id, const struct request_view *r, struct reply *out,
                 struct err *err) {
    struct ending how = {.forget = c->o->forget};
    json_t *answer = NULL;
    int rc = read_ending(r->query, &how, err);
    struct managed *m = rc < 0 ? NULL : sessions_claim(c, id);
    if (!m) {
        return rc < 0 ? rc : sessions_unknown(err);
    }
    rc = end(c, m, deadline_in_s(how.wait_s), err);
    if (rc == 0) {
        answer = how.forget ? json_pack("{s:b, s:b}", "deleted", 1, "forgotten", forget(c, m))
                            : json_pack("{s:b}", "deleted", 1);
    }
    drop(c, m);
    return rc < 0 ? rc : reply_json(out, 200, answer, err);
}

void sessions_end_all(struct capture *c, deadline_ms until) {
    struct managed *m;
    c->end_by = until;
    while ((m = sessions_claim_any(c))) {
        (void)end(c, m, until, NULL); /* A fault of the journal was told already. */
        drop(c, m);
    }
}
