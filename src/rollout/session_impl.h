/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_SESSION_IMPL_H
#define SNAFFLE_ROLLOUT_SESSION_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "gateway/gateway.h"
#include "rollout/budget.h"
#include "rollout/cause.h"
#include "rollout/factory_impl.h"
#include "rollout/session.h"
#include "rollout/task.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

/*
 * What stands behind a session, for the files of this room.
 *
 * Locks: `work` is held by whoever moves the rollout on (start_agent, wait, verify, close); `alive`
 * is read-held while a fetch uses the sandbox and write-held while it is freed. `work` comes first.
 */

#define SESSION_NAME_MAX (STORE_NAME_MAX + 12) /* "<rollout>.<attempt>" */

enum session_agent {
    SESSION_AGENT_NOT_STARTED,
    SESSION_AGENT_RUNNING,
    SESSION_AGENT_ENDED,   /* By itself: `exit_code` holds. */
    SESSION_AGENT_STOPPED, /* By us. */
};

struct session_file {
    char *path; /* Relative to workdir, as the sandbox gave it. */
    struct buf text;
    bool unreadable;
};

#define SESSION_FILES_MAX 32 /* As the reference. */

struct rollout_session {
    struct rollout_factory *factory;
    const struct task *task;
    struct rollout_control control;
    struct cancel *stop; /* Thrown with control.cancel, and by close. */
    pthread_mutex_t work;
    pthread_rwlock_t alive;
    atomic_bool closing;
    bool closed; /* Guarded by `work`. */
    int close_code;

    char group[STORE_NAME_MAX + 1];
    char rollout[STORE_NAME_MAX + 1];
    char name[SESSION_NAME_MAX + 1];
    unsigned attempt;
    char *dir;
    char *workdir;  /* Inside. */
    bool is_traced; /* The disk has the whole trace. */

    struct rollout_budget budget;
    int64_t began_ms;
    double began_unix;
    enum rollout_phase phase;
    int64_t phase_began_us; /* 0: no phase is on. */
    double phase_s[ROLLOUT_PHASE_COUNT];
    bool phase_seen[ROLLOUT_PHASE_COUNT];

    enum rollout_cause cause;
    int error_code;
    char error[ERR_MSG_MAX]; /* "" for none. */
    json_t *findings;        /* [{code, detail}] */

    struct sandbox *sandbox;
    char sandbox_id[128];
    enum sandbox_network network; /* Of the phase that runs. */
    json_t *isolation;
    struct gateway_session *gateway;    /* NULL where the gateway is in the sandbox. */
    struct inside *inside;              /* That one. */
    char *program;                      /* Of the agent, inside; NULL: where it is mounted. */
    char *agent_version;                /* NULL: none, or not known yet. */
    char *model_url;                    /* What the agent is told; */
    char *token;                        /* and its only key. */
    bool policy_changed;                /* While the gateway inside could not be told. */
    struct rollout_session *next_live;  /* Under the factory's lock. */
    struct gateway_session_stats stats; /* The last that were seen. */
    struct sandbox_job *job;
    enum session_agent agent;
    int exit_code;
    bool has_exit_code;
    int64_t agent_began_us;
    double agent_ran_s; /* From its start to its end, as seen here. */
    char *log_path;
    deadline_ms agent_until;

    json_t *setup_results;
    json_t *verify_results;
    bool verified;
    bool has_reward;
    double reward;

    struct session_file files[SESSION_FILES_MAX];
    size_t n_files;
    bool files_collected;
    struct buf agent_log;
    json_t *result;
};

/* session.c */
int session_new(struct rollout_factory *f, const struct task *task,
                const struct rollout_names *names, const struct rollout_control *control,
                struct rollout_session **out, struct err *err) CHECK_RESULT;

/* note.c: time, progress, causes, findings. */
void session_phase(struct rollout_session *s, enum rollout_phase phase); /* Ends the one before. */
void session_phase_end(struct rollout_session *s);
deadline_ms session_deadline(const struct rollout_session *s, enum rollout_phase phase);
void session_say(struct rollout_session *s, const char *detail, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void session_tick(struct rollout_session *s);
void session_finding(struct rollout_session *s, const char *code, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* Notes why the rollout is what it is, if that is worse than what was known. */
void session_note(struct rollout_session *s, enum rollout_cause cause, const struct err *why);
/* The same with the cause that this error has in this phase; returns the error's code. */
int session_fail(struct rollout_session *s, enum rollout_phase phase, const struct err *why);

/* create.c, place.c, setup.c */
int session_prepare(struct rollout_session *s, struct err *err) CHECK_RESULT;
/* A further sandbox, for the verifier. */
int session_create_fresh(struct rollout_session *s, struct sandbox **out,
                         struct err *err) CHECK_RESULT;
void session_spec(const struct rollout_session *s, enum task_phase phase,
                  enum sandbox_network network, struct sandbox_spec *out);
int session_place(struct rollout_session *s, struct err *err) CHECK_RESULT;
int session_place_files(struct rollout_session *s, const struct task_file *files, size_t n,
                        struct err *err) CHECK_RESULT;
bool session_has_setup(const struct rollout_session *s);
enum sandbox_network session_network(const struct rollout_session *s, enum task_phase phase);
int session_setup(struct rollout_session *s, struct err *err) CHECK_RESULT;

/* agent_run.c. The caller holds `work`. */
int session_plan(struct rollout_session *s, double deadline_unix, struct agent_plan *out,
                 struct err *err) CHECK_RESULT;
void session_stop_agent(struct rollout_session *s); /* With all it started; idempotent. */

/* verify.c. The caller holds `work`. */
int session_verify(struct rollout_session *s, struct err *err) CHECK_RESULT;

/* fresh.c: the session goes on in a sandbox that the agent has never seen, with the home carried
 * over. The caller holds `work`. */
int session_move_to_fresh(struct rollout_session *s, struct err *err) CHECK_RESULT;
/* Whether it does so; and what that means for the reward, among what else holds. */
bool session_verifies_fresh(const struct rollout_session *s);
void session_note_reward(struct rollout_session *s);

/* collect.c */
void session_collect_files(struct rollout_session *s);
int session_read_log(struct rollout_session *s, struct buf *out, struct err *err) CHECK_RESULT;

/* result_write.c: trace.jsonl, the logs, files/, result.json. */
int session_write(struct rollout_session *s, struct err *err) CHECK_RESULT;

#endif
