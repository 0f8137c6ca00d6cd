/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_FACTORY_H
#define SNAFFLE_ROLLOUT_FACTORY_H

#include <stdbool.h>

#include "agent/agent.h"
#include "base/err.h"
#include "rollout/control.h"
#include "rollout/session.h"

/*
 * Makes sessions: one rollout of one task by one agent in one sandbox. A factory owns the gateway,
 * the journal and the store of its run, opened when the first session needs them and shared by all.
 * Any number of threads may create from one factory; the factory outlives its sessions.
 *
 *     rollout_factory_new(&(struct rollout_options){.config = &config}, &f, err);
 *     rollout_factory_create(f, task, &names, &control, &session, err);
 *     ... rollout/session.h ...
 *     rollout_factory_free(f);
 */

struct rollout_factory;
struct rollout_records;
struct sandbox_backend;
struct sandbox_machine;
struct task;

enum rollout_mode {
    ROLLOUT_BLACK_BOX,         /* The agent's calls pass unchanged and unrecorded. */
    ROLLOUT_TRANSPARENT_PROXY, /* They are recorded, and asked for ids and log-probabilities. */
};

enum rollout_verify_in {
    ROLLOUT_VERIFY_SAME, /* In the agent's sandbox, begun anew: a second one where that is cheap. */
    ROLLOUT_VERIFY_FRESH, /* In one that the agent has never seen, with its home carried over. */
};

enum rollout_verify_on {
    ROLLOUT_VERIFY_ALWAYS,
    ROLLOUT_VERIFY_CLEAN, /* Only after an agent that ended by itself with exit code 0. */
};

/* Seconds; 0 stands for the task's own limit, and without one for the default that is named. */
struct rollout_limits {
    double create_s;         /* 120 */
    double install_s;        /* 240 */
    double setup_s;          /* 300, all setup commands together */
    double agent_s;          /* config's agent_timeout_s (900) */
    double verify_command_s; /* 120, each command */
    double verify_s;         /* 300, all verify commands together */
    double budget_s;         /* The whole rollout; 0: unbounded but by the above. */
    double upstream_down_s;  /* 120: ten failed calls in a row over this long end a rollout. */
};

/* Zero is the reference's factory. Strings and the config are kept until rollout_factory_free. */
struct rollout_options {
    const char *backend;                 /* NULL: "local". */
    const struct sandbox_backend *using; /* In place of `backend`: one that has no name. */
    const char *agent;                   /* NULL: "opencode". */
    const struct agent *running;         /* In place of `agent`: one that has no name. */
    enum rollout_mode mode;
    const struct agent_config *config;
    const struct sandbox_machine *machine; /* NULL: the backend's own. */
    struct rollout_records *records; /* That other factories share; then runs_dir, run, keep_raw
                                        and durable are theirs. NULL: a run of its own. */
    const char *runs_dir;            /* NULL: "./runs". */
    const char *run;      /* NULL: made from the time and chance; rollout_factory_run tells. */
    const char *key_name; /* The variable the API key came from; for records. */
    bool keep_raw;        /* Journal the engine's raw answers. */
    bool durable;         /* Journal records count after fdatasync. */
    bool strict;          /* Refuse what the backend can't enforce. */
    bool
        logprobs_processed; /* The engine's log-probabilities are those it sampled from (vLLM's
                               --logprobs-mode processed_logprobs), so any sampling is trainable. */
    bool neutral_sampling;  /* The gateway switches truncation and penalties off. */
    bool require_calls; /* A run without a model call fails, whatever the agent says of itself. */
    bool is_strangers;  /* Somebody else named the model's address: see gateway.h. */
    bool setup_offline; /* No outside network for setup unless the task asks for it. */
    enum rollout_verify_on verify_on;
    enum rollout_verify_in verify_in;
    unsigned create_attempts; /* 0: 3. */
    double create_backoff_s;  /* 0: 2; doubles with each attempt. */
    unsigned retries;       /* rollout_run: further attempts after causes worth one; see cause.h */
    double retry_backoff_s; /* Before the first of them; 0: 5; doubles with each. */
    struct rollout_limits limits;
};

/* Checks what can be known before any sandbox exists: the names, that the backend works here
 * (ERR_ENVIRONMENT) and that the agent is installed (ERR_ENVIRONMENT, with the command that does
 * it). */
int rollout_factory_new(const struct rollout_options *o, struct rollout_factory **out,
                        struct err *err) CHECK_RESULT;

/* Whether the model's endpoint answers and takes the key: ERR_ENVIRONMENT when not; see probe.h.
 * For callers that want to know before the first rollout. */
int rollout_factory_check_endpoint(const struct rollout_factory *f, const struct cancel *cancel,
                                   struct err *err) CHECK_RESULT;

/* Which weights the engine runs from now on: for the calls to come of all sessions that there are
 * and will be, in place of the configuration's. NULL: not known. A call that is under way keeps the
 * version of its beginning, and the finding policy_changed. */
int rollout_factory_set_policy_version(struct rollout_factory *f, const char *version,
                                       struct err *err) CHECK_RESULT;

const char *rollout_factory_run(const struct rollout_factory *f);

/* Accepts NULL. Every session was freed before. */
void rollout_factory_free(struct rollout_factory *f);

/*
 * Gives a session whose sandbox stands, with its files placed and its setup done; the agent is not
 * started. A sandbox that does not come up is tried again (create_attempts), each failed one being
 * torn down before the next; the first error is the one told. On failure nothing is left behind but
 * the rollout's folder with its result. With an attempt N > 1 what stands there moves to
 * attempts/N-1/. Keeps `task` until the session is freed; `names` and `control` may be NULL.
 */
int rollout_factory_create(struct rollout_factory *f, const struct task *task,
                           const struct rollout_names *names, const struct rollout_control *control,
                           struct rollout_session **out, struct err *err) CHECK_RESULT;

#endif
