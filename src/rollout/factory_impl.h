/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_FACTORY_IMPL_H
#define SNAFFLE_ROLLOUT_FACTORY_IMPL_H

#include <pthread.h>

#include "agent/install.h"
#include "gateway/gateway.h"
#include "journal/journal.h"
#include "rollout/factory.h"
#include "rollout/records.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

struct rollout_session;

/* How agents reach their model; see capture.h. */
enum capture_way { CAPTURE_TUNNEL, CAPTURE_PUBLIC, CAPTURE_SANDBOX };

struct rollout_factory {
    struct rollout_options o;
    const struct sandbox_backend *backend;
    const struct agent *agent;
    struct agent_installed installed; /* All NULL: the agent needs no program of ours. */
    struct sandbox_mount *mounts;     /* The first is the agent's, where one is installed. */
    size_t n_mounts;                  /* Of the user's, which follow. */
    enum capture_way capture;
    char run[STORE_NAME_MAX + 1];
    char owner[STORE_NAME_MAX + 1]; /* The label of what this process makes. */

    pthread_mutex_t lock; /* Over the policy's version and the sessions that have a gateway's;
                             and over those behind the records, until they are there. */
    char *policy_version;
    unsigned policy_serial;       /* How often it was set; 0: the configuration's holds. */
    struct rollout_session *live; /* Linked by next_live. */
    struct rollout_records *records;
    struct rollout_records *own_records; /* The same, or NULL: they are shared. */
    /* Of the records, once they are open. */
    struct store *store;
    const char *journal_dir;
    struct journal *journal;
    struct gateway *gateway;
    struct buf gateway_gz; /* The static gateway's program, compressed. */
    char gateway_sha256[65];
};

/* mounts.c: fills `mounts` from the configuration, and frees them. */
int factory_read_mounts(struct rollout_factory *f, struct err *err) CHECK_RESULT;
void factory_free_mounts(struct rollout_factory *f);

/* Opens the records, if that was not done. */
int factory_open(struct rollout_factory *f, struct err *err) CHECK_RESULT;

/* policy.c. The version that holds, and how often it was set by then; the caller frees. */
char *factory_policy(struct rollout_factory *f, unsigned *serial);
/* The session's gateway session is open, with the version of that time; it is about to close. */
int factory_enter(struct rollout_session *s, unsigned serial, struct err *err) CHECK_RESULT;
void factory_leave(struct rollout_session *s);

static inline struct sandbox_machine factory_machine(const struct rollout_factory *f) {
    return f->o.machine ? *f->o.machine : (struct sandbox_machine){0};
}

/* Else it is a machine of its own, and what it needs is sent there. */
static inline bool factory_mounts_agent(const struct rollout_factory *f) {
    return f->backend->has_model_socket;
}

static inline bool factory_captures(const struct rollout_factory *f) {
    return f->o.mode == ROLLOUT_TRANSPARENT_PROXY;
}

#endif
