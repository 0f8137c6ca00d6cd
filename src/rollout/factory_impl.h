/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_FACTORY_IMPL_H
#define SNAFFLE_ROLLOUT_FACTORY_IMPL_H

#include <pthread.h>

#include "agent/install.h"
#include "gateway/gateway.h"
#include "journal/journal.h"
#include "rollout/factory.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

struct rollout_factory {
    struct rollout_options o;
    const struct sandbox_backend *backend;
    const struct agent *agent;
    struct agent_installed installed; /* All NULL: the agent needs no program of ours. */
    struct sandbox_mount *mounts;     /* The first is the agent's, where one is installed. */
    size_t n_mounts;                  /* Of the user's, which follow. */
    char run[STORE_NAME_MAX + 1];
    char owner[STORE_NAME_MAX + 1]; /* The label of what this process makes. */

    pthread_mutex_t lock; /* Over the three below, until they are there. */
    struct store *store;
    char *journal_dir;
    struct journal *journal;
    struct gateway *gateway;
};

/* mounts.c: fills `mounts` from the configuration, and frees them. */
int factory_read_mounts(struct rollout_factory *f, struct err *err) CHECK_RESULT;
void factory_free_mounts(struct rollout_factory *f);

/* Opens store, journal and gateway, if that was not done. */
int factory_open(struct rollout_factory *f, struct err *err) CHECK_RESULT;

static inline bool factory_captures(const struct rollout_factory *f) {
    return f->o.mode == ROLLOUT_TRANSPARENT_PROXY;
}

#endif
