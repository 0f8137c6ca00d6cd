/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_CAPTURE_H
#define SNAFFLE_ROLLOUT_CAPTURE_H

#include "rollout/session_impl.h"

/*
 * The ways in which an agent reaches its model, by the configuration's `capture`:
 *
 * - tunnel: the sandbox's port 7000 is a socket of this machine (local backend).
 * - public: the gateway of this process, at an address that sandboxes reach.
 * - sandbox: a gateway of its own inside the sandbox (inside.h); the key is there too.
 */

/* Fills the factory's `capture`. ERR_INPUT, ERR_UNSUPPORTED. */
int factory_find_capture(struct rollout_factory *f, struct err *err) CHECK_RESULT;

/* Whether the task lets it be: a sandbox's outside network is the way to a public address, where a
 * network is enforced. ERR_INPUT. */
int session_check_capture(const struct rollout_session *s, struct err *err) CHECK_RESULT;

/* The gateway's session is open, or its program placed inside; the agent's address and token for it
 * are known. */
int session_open_model(struct rollout_session *s, struct err *err) CHECK_RESULT;

/* The sandbox is the agent's now: a gateway inside is started. */
int session_start_model(struct rollout_session *s, struct err *err) CHECK_RESULT;

/* The agent is about to start: the model's port inside leads to the gateway. */
int session_bind_model(struct rollout_session *s, struct err *err) CHECK_RESULT;

/* The calls so far, in `stats`; of a gateway inside as of some seconds ago. */
void session_look_at_calls(struct rollout_session *s);

/* Before what runs inside is killed, and after: open calls end, and nothing is written after. */
void session_end_model(struct rollout_session *s);
void session_close_model(struct rollout_session *s);

/* What `capture` costs, among what else holds. */
void session_note_isolation(struct rollout_session *s);

#endif
