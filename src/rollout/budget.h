/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_BUDGET_H
#define SNAFFLE_ROLLOUT_BUDGET_H

#include "base/clock.h"
#include "rollout/factory.h"

/* How long each phase of a rollout may take. Pure: the clock's reading is passed in. */

#define BUDGET_CREATE_S 120.0
#define BUDGET_INSTALL_S 240.0
#define BUDGET_SETUP_S 300.0
#define BUDGET_AGENT_S 900.0
#define BUDGET_VERIFY_COMMAND_S 120.0
#define BUDGET_VERIFY_S 300.0
#define BUDGET_UPSTREAM_DOWN_S 120.0 /* An engine that restarts is back within two minutes. */
#define BUDGET_CARRY_S 300.0         /* 1 GB from one sandbox to another over 50 Mbit/s. */
#define BUDGET_COLLECT_S 30.0  /* 32 small files and a log; more means a sandbox that hangs. */
#define BUDGET_TEARDOWN_S 30.0 /* A provider's slow answer; local ones take milliseconds. */
#define BUDGET_RESERVE_S 30.0  /* Kept of budget_s for collecting and teardown. */

struct rollout_budget {
    struct rollout_limits limits; /* None is 0 but budget_s. */
    deadline_ms end;              /* Of budget_s; DEADLINE_NEVER without. */
    bool verifies;                /* Something is kept for verify. */
};

/* A figure in `asked` wins over the task's, which wins over the default; `agent_s` is the default
 * of the agent's phase (0: 900). */
struct rollout_budget rollout_budget_make(const struct rollout_limits *asked,
                                          const struct rollout_limits *task, double agent_s,
                                          bool verifies, int64_t now_ms);

/* Seconds that a phase which begins now may take: its own, or what is left of the whole less what
 * verify and the reserve need. Never negative. */
double rollout_budget_phase_s(const struct rollout_budget *b, enum rollout_phase phase,
                              int64_t now_ms);

/* Upper bound of the whole, for the sandbox's lifetime at its provider. */
double rollout_budget_lifetime_s(const struct rollout_budget *b);

#endif
