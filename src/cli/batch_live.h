/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_CLI_BATCH_LIVE_H
#define SNAFFLE_CLI_BATCH_LIVE_H

#include <stdio.h>

#include "rollout/batch.h"

/*
 * Tells on `stream` how a batch goes: on a terminal one block that is redrawn, with a line a
 * rollout that runs; elsewhere a line a rollout that ended, and now and then one of all.
 */
struct batch_live {
    FILE *stream;
    bool quiet;
    bool colour;
    size_t columns;   /* 0: no terminal. */
    size_t drawn;     /* Lines of the block that stands there. */
    double next_said; /* When the next line of all is due. */
};

/* `columns` as text_columns gives them, or what a test wants. */
void batch_live_init(struct batch_live *l, FILE *stream, size_t columns, bool colour, bool quiet);
void batch_live_tick(void *live, const struct batch_view *v);
void batch_live_ended(void *live, const struct batch_item *item);
void batch_live_end(struct batch_live *l); /* Takes the block away. */

#endif
