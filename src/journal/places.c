/* SPDX-License-Identifier: BSD-3-Clause */
#include "journal/places.h"

#include <stdlib.h>
#include <string.h>

#include "journal/crc32c.h"

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
    if (!s || s->n == s->cap) {
        p->lossy = true;
        return;
    }
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

void places_deinit(struct places *p) {
    for (size_t i = 0; i < PLACES_BUCKETS; i++) {
        while (p->buckets[i]) {
            drop_first(&p->buckets[i]);
        }
    }
}
