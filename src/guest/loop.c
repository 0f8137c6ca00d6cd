/* SPDX-License-Identifier: BSD-3-Clause */
#include "guest/loop.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_CAP 32 /* The listeners, the signals, and a few calls and commands. */

static int grow(struct loop *l) {
    size_t cap = l->cap ? l->cap * 2 : FIRST_CAP;
    struct pollfd *fds = realloc(l->fds, cap * sizeof *fds);
    if (!fds) {
        return ERR_NOMEM;
    }
    l->fds = fds;
    struct loop_watch **watches = realloc(l->watches, cap * sizeof(struct loop_watch *));
    if (!watches) {
        return ERR_NOMEM;
    }
    l->watches = watches;
    l->cap = cap;
    return 0;
}

int loop_add(struct loop *l, struct loop_watch *w, int fd, short events) {
    BUG_IF(w->slot || fd < 0);
    if (l->n == l->cap && grow(l) < 0) {
        return ERR_NOMEM;
    }
    l->fds[l->n] = (struct pollfd){.fd = fd, .events = events};
    l->watches[l->n] = w;
    w->slot = ++l->n;
    return 0;
}

/* poll(2) ignores negative descriptors; ~fd is negative for every fd and gives it back. */
void loop_want(struct loop *l, struct loop_watch *w, short events) {
    if (w->slot) {
        struct pollfd *p = &l->fds[w->slot - 1];
        p->fd = p->fd < 0 ? ~p->fd : p->fd;
        p->events = events;
    }
}

void loop_mute(struct loop *l, struct loop_watch *w) {
    if (w->slot) {
        struct pollfd *p = &l->fds[w->slot - 1];
        p->fd = p->fd < 0 ? p->fd : ~p->fd;
        p->revents = 0;
    }
}

void loop_drop(struct loop *l, struct loop_watch *w) {
    if (w->slot) {
        l->fds[w->slot - 1] = (struct pollfd){.fd = -1};
        l->watches[w->slot - 1] = NULL;
        l->has_holes = true;
        w->slot = 0;
    }
}

static void close_holes(struct loop *l) {
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->watches[i]) {
            l->fds[kept] = l->fds[i];
            l->watches[kept] = l->watches[i];
            kept++;
            l->watches[kept - 1]->slot = kept;
        }
    }
    l->n = kept;
    l->has_holes = false;
}

void loop_arm(struct loop *l, struct loop_timer *t, deadline_ms at) {
    t->at = at;
    if (!t->is_armed) {
        t->is_armed = true;
        t->next = l->timers;
        l->timers = t;
    }
}

void loop_disarm(struct loop *l, struct loop_timer *t) {
    if (!t->is_armed) {
        return;
    }
    struct loop_timer **p = &l->timers;
    while (*p != t) {
        p = &(*p)->next;
    }
    *p = t->next;
    t->is_armed = false;
}

static deadline_ms first_deadline(const struct loop *l) {
    deadline_ms first = DEADLINE_NEVER;
    for (const struct loop_timer *t = l->timers; t; t = t->next) {
        first = deadline_min(first, t->at);
    }
    return first;
}

/* A callback may change the list, so the search begins anew after each. */
static void fire_timers(struct loop *l) {
    int64_t now = clock_ms();
    struct loop_timer *t = l->timers;
    while (t && !l->is_stopped) {
        if (t->at > now) {
            t = t->next;
            continue;
        }
        loop_disarm(l, t);
        t->on_time(t);
        t = l->timers;
    }
}

int loop_run(struct loop *l, struct err *err) {
    while (!l->is_stopped) {
        if (l->has_holes) {
            close_holes(l);
        }
        int ready = poll(l->fds, l->n, deadline_poll_ms(first_deadline(l)));
        if (ready < 0 && errno != EINTR) {
            return err_sys(err, ERR_SYS, errno, "cannot wait");
        }
        size_t n = ready > 0 ? l->n : 0; /* What callbacks add waits for the next round. */
        for (size_t i = 0; i < n && !l->is_stopped; i++) {
            if (l->watches[i] && l->fds[i].revents) {
                l->watches[i]->on_ready(l->watches[i], l->fds[i].revents);
            }
        }
        fire_timers(l);
    }
    return 0;
}

void loop_stop(struct loop *l) {
    l->is_stopped = true;
}

void loop_deinit(struct loop *l) {
    free(l->fds);
    free(l->watches);
    *l = (struct loop){0};
}
