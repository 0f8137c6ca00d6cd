/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_JOURNAL_PLACES_H
#define SNAFFLE_JOURNAL_PLACES_H

#include <stdint.h>

#include "base/err.h"
#include "base/sv.h"
#include "journal/journal.h"

/*
 * Where a writer put the records of its sessions, so that a trace costs its own records and not
 * those of the whole run. No lock of its own. Zero is empty.
 */

#define PLACES_BUCKETS 1024 /* As many sessions at once as one process is built for. */

struct places_session;

struct places {
    struct places_session *buckets[PLACES_BUCKETS];
    bool lossy;        /* There was no memory: some place is missing. */
    unsigned *holders; /* Of segment i + 1: sessions with a record in it that are not released. */
    unsigned n_holders;
};

void places_add(struct places *p, struct sv session, struct journal_place place);

/* Gives a copy of the session's places in the order of writing, to be freed; none is success. */
int places_copy(const struct places *p, struct sv session, struct journal_place **out, size_t *n,
                struct err *err) CHECK_RESULT;
void places_forget(struct places *p, struct sv session);

/* Forgets a session whose records may go. */
void places_release(struct places *p, struct sv session);
/* Gives, once each, a segment up to `last` in which nothing is held; 0: there is none. */
unsigned places_take_free(struct places *p, unsigned last);
bool places_all_taken(const struct places *p, unsigned last);
void places_deinit(struct places *p);

#endif
