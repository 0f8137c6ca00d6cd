/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_CAUSE_H
#define SNAFFLE_ROLLOUT_CAUSE_H

#include <stdbool.h>

#include "rollout/control.h"
#include "rollout/factory.h"

/*
 * The table of causes: what went wrong with a rollout, and what follows from it. Everything that
 * decides on grading, status or another attempt asks here.
 */

/* name, the word in result.json, status, is the agent's work graded, another attempt */
#define ROLLOUT_CAUSE_MAP(X)                                                                       \
    X(NONE, NULL, "ok", ALWAYS, NEVER)                                                             \
    X(SETUP_FAILED, "setup_failed", "failed", NEVER, NEVER)                                        \
    X(AGENT_CRASH, "agent_crash", "ok", UNLESS_CLEAN, NEVER)                                       \
    X(AGENT_TIMEOUT, "agent_timeout", "ok", UNLESS_CLEAN, NEVER)                                   \
    X(AGENT_NO_CALLS, "agent_no_calls", "failed", NEVER, ONCE)                                     \
    X(SANDBOX_CREATE, "sandbox_create", "failed", NEVER, BACKOFF)                                  \
    X(SANDBOX_LOST, "sandbox_lost", "failed", NEVER, BACKOFF)                                      \
    X(QUOTA, "quota", "failed", NEVER, BACKOFF)                                                    \
    X(AGENT_INSTALL, "agent_install", "failed", NEVER, BACKOFF)                                    \
    X(UPSTREAM_DOWN, "upstream_down", "failed", NEVER, BACKOFF)                                    \
    X(CAPTURE_FAULT, "capture_fault", "failed", NEVER, BACKOFF)                                    \
    X(VERIFY_TIMEOUT, "verify_timeout", "failed", NEVER, NEVER)                                    \
    X(VERIFY_CRASH, "verify_crash", "failed", NEVER, NEVER)                                        \
    X(REWARD_UNREADABLE, "reward_unreadable", "failed", NEVER, NEVER)                              \
    X(CANCELLED, NULL, "cancelled", NEVER, NEVER)                                                  \
    X(INTERNAL, "internal", "failed", NEVER, NEVER)

enum rollout_cause {
#define ROLLOUT_CAUSE_ENUM_(name, word, status, graded, retry) ROLLOUT_CAUSE_##name,
    ROLLOUT_CAUSE_MAP(ROLLOUT_CAUSE_ENUM_)
#undef ROLLOUT_CAUSE_ENUM_
        ROLLOUT_CAUSE_COUNT
};

enum rollout_graded { ROLLOUT_GRADED_NEVER, ROLLOUT_GRADED_UNLESS_CLEAN, ROLLOUT_GRADED_ALWAYS };
enum rollout_retry { ROLLOUT_RETRY_NEVER, ROLLOUT_RETRY_ONCE, ROLLOUT_RETRY_BACKOFF };

struct rollout_cause_row {
    const char *word; /* NULL: result.json's cause is null. */
    const char *status;
    enum rollout_graded graded; /* UNLESS_CLEAN: not with ROLLOUT_VERIFY_CLEAN. */
    enum rollout_retry retry;   /* ONCE: a second attempt; BACKOFF: up to the caller's retries. */
};

const struct rollout_cause_row *rollout_cause_row(enum rollout_cause cause);

/* Whether the agent's work gets verified and rewarded. */
bool rollout_cause_graded(enum rollout_cause cause, enum rollout_verify_on on);

/* Whether attempt `attempt` (from 1) that ended so is followed by another. */
bool rollout_cause_retried(enum rollout_cause cause, unsigned attempt, unsigned retries);

/* A failed or cancelled rollout stays what it first became; one that is "ok" may still fail. */
bool rollout_cause_replaces(enum rollout_cause was, enum rollout_cause now);

/* What an error means that came up in this phase. */
enum rollout_cause rollout_cause_of(enum rollout_phase phase, int code);

#endif
