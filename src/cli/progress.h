/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_PROGRESS_H
#define SNAFFLE_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdio.h>

#include "rollout/control.h"

/*
 * Tells on `stream` how a rollout goes: on a terminal one line that is redrawn, elsewhere a line an
 * event. For one rollout; the events come one after the other.
 */
struct progress {
    FILE *stream;
    bool quiet;
    size_t columns; /* 0: no terminal. */
    size_t drawn;   /* Columns of the line that stands there. */
    double agent_from_s;
    bool agent_began;
};

/* `columns` as text_columns gives them, or what a test wants. */
void progress_init(struct progress *p, FILE *stream, size_t columns, bool quiet);

/* A rollout_progress_fn; `arg` is the struct progress. */
void progress_event(void *arg, const struct rollout_event *event);

/* Takes the live line away. */
void progress_end(struct progress *p);

#endif
