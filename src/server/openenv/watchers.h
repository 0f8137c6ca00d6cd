/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_OPENENV_WATCHERS_H
#define SNAFFLE_SERVER_OPENENV_WATCHERS_H

#include <jansson.h>

#include "net/server.h"
#include "server/openenv/environment.h"

/* Who looks at the web page's episode over /ws/ui: told of all of it when they come, and again
 * after each reset and step. What they send is passed over. Zero is empty. Loop thread only. */

#define WATCHERS_MAX 16u
#define WATCHERS_STEPS_MAX 1000u       /* Kept of an episode, as the reference does; */
#define WATCHERS_BYTES_MAX (2u << 20)  /* and no more than that. */
#define WATCHERS_ANSWER_MAX (1u << 20) /* Of a longer answer only its size is shown. */
#define WATCHERS_UNSENT_MAX (4u << 20) /* Who reads less is let go. */

struct watcher;
struct watched_step;

struct watchers {
    struct watcher *first;
    unsigned n;
    struct watched_step *steps; /* The oldest first. */
    struct watched_step **last;
    unsigned n_steps;
    size_t bytes;
    struct buf observation; /* The last one; empty: none yet. */
    bool is_reset;
};

/* Takes the exchange. `shown` (NULL: none yet) is the episode. */
void watchers_join(struct watchers *w, struct exchange *x, const struct environment *shown);
/* `payload`: the answer to it, {"observation", "reward", "done"}. */
void watchers_tell_reset(struct watchers *w, const struct environment *shown, struct sv payload);
void watchers_tell_step(struct watchers *w, const struct environment *shown, const json_t *action,
                        struct sv payload);
void watchers_end(struct watchers *w);

#endif
