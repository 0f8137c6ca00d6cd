/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/openenv/sessions.h"

#include <stdlib.h>
#include <string.h>

struct sessions {
    struct loop *loop;
    unsigned max;
    unsigned active;
    struct session *first;
};

int sessions_new(struct loop *l, unsigned max, struct sessions **out, struct err *err) {
    struct sessions *s = calloc(1, sizeof *s);
    if (!s) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    s->loop = l;
    s->max = max ? max : SESSIONS_MAX_DEFAULT;
    *out = s;
    return 0;
}

void sessions_free(struct sessions *s) {
    if (s) {
        sessions_close_all(s);
        free(s);
    }
}

unsigned sessions_active(const struct sessions *s) {
    return s->active;
}

unsigned sessions_max(const struct sessions *s) {
    return s->max;
}

void session_use(struct session *one) {
    one->users++;
}

void session_release(struct session *one) {
    if (--one->users == 0) {
        environment_deinit(&one->environment);
        free(one);
    }
}

void session_touch(struct sessions *s, struct session *one) {
    one->used_ms = loop_now_ms(s->loop);
}

void session_asked(struct sessions *s, struct session *one) {
    session_touch(s, one);
    one->asked_ms = one->used_ms;
}

void sessions_close(struct sessions *s, struct session *one) {
    if (one->is_closed) {
        return;
    }
    one->is_closed = true;
    *(one->prev ? &one->prev->next : &s->first) = one->next;
    if (one->next) {
        one->next->prev = one->prev;
    }
    s->active--;
    timer_free(one->alone);
    one->alone = NULL;
    session_release(one);
}

void sessions_close_all(struct sessions *s) {
    while (s->first) {
        sessions_close(s, s->first);
    }
}

/* Nothing came of its client since its WebSocket went. */
static void on_alone(void *arg) {
    struct session *one = arg;
    if (one->is_attached || one->asked_ms > one->detached_ms) {
        return;
    }
    if (one->calls > 0) {
        timer_start(one->alone, SESSIONS_ALONE_MS);
    } else {
        sessions_close(one->owner, one);
    }
}

void session_attach(struct session *one) {
    one->is_attached = true;
    session_use(one);
}

void session_detach(struct session *one) {
    one->is_attached = false;
    if (one->ends_with_it && !one->is_closed) {
        sessions_close(one->owner, one);
    } else if (!one->is_closed) {
        one->detached_ms = loop_now_ms(one->owner->loop);
        if (one->alone || timer_new(one->owner->loop, on_alone, one, &one->alone, NULL) == 0) {
            timer_start(one->alone, SESSIONS_ALONE_MS);
        }
    }
    session_release(one);
}

static void make_place(struct sessions *s) {
    struct session *unused = NULL;
    for (struct session *one = s->first; one; one = one->next) {
        bool is_unused = one->over_http && !one->is_attached && one->calls == 0 &&
                         loop_now_ms(s->loop) - one->used_ms >= SESSIONS_UNUSED_MS;
        if (is_unused && (!unused || one->used_ms < unused->used_ms)) {
            unused = one;
        }
    }
    if (unused) {
        sessions_close(s, unused);
    }
}

int session_make(struct session **out, struct err *err) {
    struct session *one = calloc(1, sizeof *one);
    if (!one || environment_reset(&one->environment, (struct sv){0}) < 0) {
        free(one);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    uuid_make(one->id);
    one->users = 1;
    *out = one;
    return 0;
}

int sessions_open(struct sessions *s, bool over_http, struct session **out, struct err *err) {
    if (s->active >= s->max) {
        make_place(s);
    }
    if (s->active >= s->max) {
        return err_set(err, ERR_QUOTA,
                       "Server at capacity: %u/%u sessions active. Cannot accept new connections.",
                       s->active, s->max);
    }
    struct session *one = NULL;
    int r = session_make(&one, err);
    if (r < 0 || !one) {
        return r;
    }
    one->owner = s;
    one->over_http = over_http;
    session_touch(s, one);
    one->next = s->first;
    if (s->first) {
        s->first->prev = one;
    }
    s->first = one;
    s->active++;
    *out = one;
    return 0;
}

struct session *sessions_find(const struct sessions *s, struct sv id) {
    struct session *one = s->first;
    while (one && !sv_eq(sv_from(one->id), id)) {
        one = one->next;
    }
    return one;
}
