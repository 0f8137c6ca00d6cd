/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_AGENT_PLACE_H
#define SNAFFLE_ROLLOUT_AGENT_PLACE_H

#include "rollout/session_impl.h"

/*
 * The agent's program in a sandbox that nothing of this machine can be mounted in. In this order:
 * what the image has, at the wanted version; this machine's own copy (`snaffle agent install`),
 * sent and compared by its digest, where it fits the sandbox's processor and C library; the agent's
 * own installer, run inside.
 */

/* Fills the session's `program` and `agent_version`. Success also for agents that have no program.
 */
int session_place_agent(struct rollout_session *s, struct err *err) CHECK_RESULT;

#endif
