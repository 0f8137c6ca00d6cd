/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_SESSION_H
#define SNAFFLE_ROLLOUT_SESSION_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "rollout/control.h"

/*
 * One rollout from its ready sandbox to its result. Functions block; they may be called from any
 * thread. start_agent, wait and verify follow each other (a second caller waits for the first);
 * close may be called at any time, ends them, and is safe to call again.
 *
 *     rollout_session_start_agent(s, err);
 *     rollout_session_wait(s, 0, &exit_code, err);
 *     rollout_session_verify(s, &verdict, err);
 *     rollout_session_close(s, err);
 *     rollout_session_result(s, &result, err);
 *     rollout_session_free(s);
 */

struct rollout_session;

/* Each matches [a-z0-9][a-z0-9-]{0,62}. Borrowed. */
struct rollout_names {
    const char *group;   /* NULL: the rollout's own. */
    const char *rollout; /* NULL: made from the task's id and chance. */
    unsigned attempt;    /* 0: 1. */
};

const char *rollout_session_rollout(const struct rollout_session *s);
const char *rollout_session_sandbox_id(const struct rollout_session *s);
const char *rollout_session_dir(const struct rollout_session *s); /* runs/<run>/<rollout> */

/* Idempotent. ERR_STATE after close. */
int rollout_session_start_agent(struct rollout_session *s, struct err *err) CHECK_RESULT;

/* The same for this session's calls only. ERR_STATE once its agent has ended. */
int rollout_session_set_policy_version(struct rollout_session *s, const char *version,
                                       struct err *err) CHECK_RESULT;

/*
 * Waits for the agent's own end and gives its exit code (128 + signal). ERR_STATE when it was not
 * started or the session is closed. ERR_TIMEOUT after `timeout_s` (0: as long as the agent has),
 * when the agent goes on, or at the end of the agent's time, when it was stopped. ERR_UPSTREAM
 * (upstream_down) and ERR_FULL (capture_fault): it was stopped because the run is lost.
 * ERR_CANCELLED: the control's switch, or close.
 */
int rollout_session_wait(struct rollout_session *s, double timeout_s, int *exit_code,
                         struct err *err) CHECK_RESULT;

/* Appends the calls recorded so far, one JSON object a line as in trace.jsonl; nothing in black_box
 * mode. Works from start_agent until free. */
int rollout_session_fetch_trace(struct rollout_session *s, struct buf *out,
                                struct err *err) CHECK_RESULT;

/* Appends the agent's own output so far (at most ROLLOUT_LOG_MAX bytes of its tail). */
int rollout_session_fetch_log(struct rollout_session *s, struct buf *out,
                              struct err *err) CHECK_RESULT;

#define ROLLOUT_LOG_MAX                                                                            \
    (16u * 1024 * 1024) /* An hour of OpenCode's JSON events is some MB; a runaway is cut. */

struct rollout_verdict {
    bool has_reward; /* false: not graded, which is not 0. */
    double reward;
};

/* Stops the agent and all it started, sees it dead, and judges in a clean place. Idempotent: the
 * first verdict stands. A cause that forbids grading gives no reward and success. */
int rollout_session_verify(struct rollout_session *s, struct rollout_verdict *out,
                           struct err *err) CHECK_RESULT;

/* Stops the agent, collects what there is, writes the rollout's folder, tears the sandbox down.
 * Failing to tear down is the error given; the folder is written all the same. */
int rollout_session_close(struct rollout_session *s, struct err *err);

/* result.json as it was written; after close. The caller owns the object. */
int rollout_session_result(const struct rollout_session *s, json_t **out,
                           struct err *err) CHECK_RESULT;

/* Closes, if that was not done. Accepts NULL. No other call may be running. */
void rollout_session_free(struct rollout_session *s);

/* What the reference's session offers besides: one user message with the instruction, no tools, and
 * an error for whoever calls one. The caller owns the objects; NULL: out of memory. */
json_t *rollout_session_initial_messages(const struct rollout_session *s);
json_t *rollout_session_list_tools(const struct rollout_session *s);
json_t *rollout_session_call_tool(const struct rollout_session *s, const char *name);

#endif
