/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_BATCH_ROOM_H
#define SNAFFLE_ROLLOUT_BATCH_ROOM_H

#include <stdint.h>

#include "base/err.h"

/* Whether the machine has room for a batch, asked before it begins. */

/* What a rollout leaves under runs/: three calls of OpenCode leave 1.2 MB with the journal, a long
 * one many times that. An estimate: it is there to refuse what cannot go well. */
#define BATCH_ROLLOUT_BYTES (2u << 20)
/* A sandbox's home while it runs: the agent's own state and a small project. */
#define BATCH_SANDBOX_BYTES (16u << 20)
/* Descriptors of a rollout: its locks, the guest's calls, the agent's connections and theirs to the
 * engine, and some more for agents that open many. */
#define BATCH_DESCRIPTORS 16
#define BATCH_DESCRIPTORS_BASE 512 /* Journal, index, loop; and sixteen sandboxes that start. */

/* ERR_FULL naming folder, need and remedy. `what` says what for: "1000 rollouts". */
int batch_room_disk(const char *dir, uint64_t bytes, const char *what,
                    struct err *err) CHECK_RESULT;

/* Raises the descriptor limit to what this process may have; ERR_ENVIRONMENT, with the remedy,
 * when that is too little for so many rollouts at once. */
int batch_room_descriptors(unsigned concurrency, struct err *err) CHECK_RESULT;

#endif
