/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/places.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "journal/crc32c.h"

#define TAKEN UINT_MAX /* The segment is gone. */

struct places_session {
    struct places_session *next;
    struct journal_place *places;
    size_t n;
    size_t cap;
    size_t name_n;
    char name[];
};

static struct places_session **find(const struct places *p, struct sv session) {
    size_t bucket = crc32c(0, session.p, session.n) % PLACES_BUCKETS;
    struct places_session **at = (struct places_session **)&p->buckets[bucket];
    while (*at && !sv_eq((struct sv){(*at)->name, (*at)->name_n}, session)) {
        at = &(*at)->next;
    }
    return at;
}

static struct places_session *find_or_make(struct places *p, struct sv session) {
    struct places_session **at = find(p, session);
    if (!*at) {
        *at = calloc(1, sizeof **at + session.n);
        if (*at) {
            memcpy((*at)->name, session.p, session.n);
            (*at)->name_n = session.n;
        }
    }
    return *at;
}

/* Room for the segment's count. */
static bool count_segments(struct places *p, unsigned segment) {
    if (segment <= p->n_holders) {
        return true;
    }
    unsigned *grown = realloc(p->holders, segment * sizeof *grown);
    if (grown) {
        memset(grown + p->n_holders, 0, (segment - p->n_holders) * sizeof *grown);
        p->holders = grown;
        p->n_holders = segment;
    }
    return grown != NULL;
}

void places_add(struct places *p, struct sv session, struct journal_place place) {
    struct places_session *s = find_or_make(p, session);
    if (s && s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 8; /* Opening, close, and three calls. */
        struct journal_place *grown = realloc(s->places, cap * sizeof *grown);
        if (grown) {
            s->places = grown;
            s->cap = cap;
        }
    }
    if (!s || s->n == s->cap || !count_segments(p, place.segment)) {
        p->lossy = true;
        return;
    }
    p->holders[place.segment - 1] += s->n == 0 || s->places[s->n - 1].segment != place.segment;
    s->places[s->n++] = place;
}

int places_copy(const struct places *p, struct sv session, struct journal_place **out, size_t *n,
                struct err *err) {
    const struct places_session *s = *find(p, session);
    *out = NULL;
    *n = s ? s->n : 0;
    if (*n == 0) {
        return 0;
    }
    *out = malloc(*n * sizeof **out);
    if (!*out) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    memcpy(*out, s->places, *n * sizeof **out);
    return 0;
}

static void drop_first(struct places_session **at) {
    struct places_session *s = *at;
    *at = s->next;
    free(s->places);
    free(s);
}

void places_forget(struct places *p, struct sv session) {
    struct places_session **at = find(p, session);
    if (*at) {
        drop_first(at);
    }
}

void places_release(struct places *p, struct sv session) {
    const struct places_session *s = *find(p, session);
    for (size_t i = 0; s && i < s->n; i++) {
        unsigned segment = s->places[i].segment;
        p->holders[segment - 1] -= i == 0 || s->places[i - 1].segment != segment;
    }
    places_forget(p, session);
}

unsigned places_take_free(struct places *p, unsigned last) {
    if (p->lossy) {
        return 0;
    }
    for (unsigned segment = 1; segment <= last && count_segments(p, last); segment++) {
        if (p->holders[segment - 1] == 0) {
            p->holders[segment - 1] = TAKEN;
            return segment;
        }
    }
    return 0;
}

bool places_all_taken(const struct places *p, unsigned last) {
    bool all = last <= p->n_holders;
    for (unsigned i = 0; i < last && all; i++) {
        all = p->holders[i] == TAKEN;
    }
    return all;
}

void places_deinit(struct places *p) {
    free(p->holders);
    for (size_t i = 0; i < PLACES_BUCKETS; i++) {
        while (p->buckets[i]) {
            drop_first(&p->buckets[i]);
        }
    }
}
