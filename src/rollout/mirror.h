/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_MIRROR_H
#define SNAFFLE_ROLLOUT_MIRROR_H

#include "gateway/gateway.h"
#include "journal/journal.h"
#include "sandbox/sandbox.h"

/*
 * The journal that a gateway inside a sandbox writes, taken over into the run's own while it grows:
 * its bytes are copied to a folder of the host, each whole record is appended to the run's journal
 * under the rollout's name. So a trace is read as of any other rollout, and what was copied stays
 * when the sandbox is lost. What comes from there is foreign: it is bounded, and its names count
 * for nothing. One thread at a time.
 *
 *     mirror_new(&(struct mirror_options){...}, &m, err);
 *     mirror_step(m, err);     (now and then)
 *     mirror_end(m, err);      (the gateway inside has ended)
 *     mirror_free(m);
 */
struct mirror;

struct mirror_options {
    struct sandbox *sandbox;
    const char *path;    /* Inside: the folder of the writer's segments. */
    const char *dir;     /* A folder of the host, made here and removed by mirror_free. */
    struct journal *to;  /* Keeps. */
    const char *session; /* The name that the records get. Keeps. */
};

#define MIRROR_BYTES_MAX                                                                           \
    (2ull << 30) /* A day of calls; an agent that is root writes what it likes. */

int mirror_new(const struct mirror_options *o, struct mirror **out, struct err *err) CHECK_RESULT;

/* Takes over what has come since; without news it costs one read inside. */
int mirror_step(struct mirror *m, struct err *err) CHECK_RESULT;

/* Nothing more is written there: takes over the rest, to the last byte or an error. ERR_CORRUPT: a
 * record is damaged or cut. */
int mirror_end(struct mirror *m, struct err *err) CHECK_RESULT;

/* What the records taken over say of the calls. */
void mirror_stats(const struct mirror *m, struct gateway_session_stats *out);

/* Writes the session's end into the run's journal, if none was taken over. Accepts NULL. */
void mirror_free(struct mirror *m);

#endif
