/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_GATEWAY_KNOWN_H
#define SNAFFLE_GATEWAY_KNOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sv.h"
#include "gateway/profile.h"

/*
 * What has been learned of an engine from its answers: what kind it is, and what it refuses or does
 * not give, for each model, with streams and without, with tools and without. Any thread.
 */

/* An engine that is started anew with other flags tells nobody; asking again costs one short
 * refusal, so once an hour is cheap, and no run goes on for longer without ids that it could have.
 */
#define KNOWN_MS (3600 * 1000)
/* An engine serves a handful of models (a router's many are used a few at a time), times four. */
#define KNOWN_MAX 64u
/* So many answers in a row without the ids that were asked for, before another way is taken: one
 * may be an engine's mishap, and other ways give less. */
#define KNOWN_SILENT_MAX 3u
/* Then the better way is tried again after a minute, since each turn until then may lack what only
 * that way gives; and each time that it is in vain costs a turn its ids, so the time doubles, up to
 * KNOWN_MS. */
#define KNOWN_SILENT_MS (60 * 1000)

/* A way to ask for ids that is passed over in silence. */
struct known_silence {
    unsigned what;     /* enum ask; 0: all came. */
    unsigned in_a_row; /* From KNOWN_SILENT_MAX it is confirmed. */
    int64_t for_ms;    /* Not asked for so long, the next time that it is confirmed. */
    int64_t until_ms;
};

struct known_entry {
    char *model; /* JSON value as sent. */
    bool stream;
    bool tools;
    unsigned withdrawn; /* enum ask: refused by name. */
    int64_t until_ms;
    struct known_silence silence;
};

struct known {
    pthread_mutex_t lock;
    enum engine configured; /* ENGINE_UNKNOWN: it is learned. */
    enum engine learned;
    struct known_entry entries[KNOWN_MAX];
    unsigned n;
};

void known_init(struct known *k, enum engine configured);
void known_deinit(struct known *k);

const struct profile *known_profile(struct known *k);
/* What is configured stays. What was known of another kind of engine is forgotten. */
void known_learn_engine(struct known *k, enum engine e);

/* What is not to be asked for now. */
unsigned known_withdrawn(struct known *k, struct sv model, bool stream, bool tools, int64_t now_ms);
/* Adds to it, for KNOWN_MS from now. */
void known_withdraw(struct known *k, struct sv model, bool stream, bool tools, unsigned what,
                    int64_t now_ms);
/* Ids were asked for by `what` (enum ask), and came, or did not though the answer was good. */
void known_note_ids(struct known *k, struct sv model, bool stream, bool tools, unsigned what,
                    bool came, int64_t now_ms);

#endif
