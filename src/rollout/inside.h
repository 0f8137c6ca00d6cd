/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_INSIDE_H
#define SNAFFLE_ROLLOUT_INSIDE_H

#include "rollout/session_impl.h"

/*
 * The gateway that runs inside the agent's sandbox, on port 7000: the static program, from the
 * image or sent there. The endpoint's key reaches it by its standard input alone. Its journal is
 * mirrored into the run's own (mirror.h). Its dead man's switch is the sandbox's lifetime.
 */
struct inside;

/* Finds the program inside, or sends it. */
int inside_place(struct rollout_session *s, struct inside **out, struct err *err) CHECK_RESULT;

/* Starts it, and waits until it answers: the error has the end of its log. */
int inside_start(struct rollout_session *s, struct inside *in, struct err *err) CHECK_RESULT;

/* Takes its calls over, but not more often than is worth it; a failure is for the next look. */
void inside_look(struct rollout_session *s, struct inside *in);
deadline_ms inside_next_look(const struct inside *in);

/* Asks it for its figures, and to end: open calls are recorded as they are. */
void inside_stop(struct rollout_session *s, struct inside *in);

/* Nothing runs inside any more: takes over the rest of its calls. ERR_CORRUPT, ERR_FULL and others:
 * calls are missing. */
int inside_collect(struct rollout_session *s, struct inside *in, struct err *err) CHECK_RESULT;

void inside_free(struct inside *in); /* Accepts NULL. */

#endif
