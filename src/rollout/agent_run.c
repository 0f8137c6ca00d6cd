/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/plan.h"
#include "base/log.h"
#include "base/mem.h"
#include "rollout/capture.h"
#include "rollout/inside.h"

#define TICK_MS 1000 /* How often a waiting rollout looks at its calls and its clock. */
#define UPSTREAM_DOWN_CALLS                                                                        \
    10                        /* Failed calls in a row, and for how long, that end a rollout: an   \
                               */
#define UPSTREAM_DOWN_S 120.0 /* engine that restarts is back within two minutes. */
#define KILL_ALL_S 20         /* SIGKILL needs no more than a machine under load. */

static int start(struct rollout_session *s, struct err *err) {
    double seconds = rollout_budget_phase_s(&s->budget, ROLLOUT_PHASE_AGENT, clock_ms());
    int r = session_bind_model(s, err);
    if (r < 0) {
        return r;
    }
    struct agent_plan plan = {0};
    r = session_plan(s, clock_unix() + seconds, &plan, err);
    r = r < 0 ? r
              : plan_add_image_env(&plan, sandbox_image_env(s->sandbox), s->factory->o.config, err);
    if (r >= 0) {
        struct sandbox_exec what = {
            .argv = (const char *const *)plan.argv,
            .env = (const char *const *)plan.env,
            .clean = true, /* The plan's environment is all of it. */
            .cwd = plan.cwd,
            .input = sv_from(plan.input),
            .stdout_path = plan.log_path,
            .stderr_path = plan.log_path,
            .cancel = s->stop,
        };
        s->agent_until = deadline_in_s(seconds);
        s->agent_began_us = clock_us();
        r = sandbox_start(s->sandbox, &what, &s->job, err);
    }
    agent_plan_deinit(&plan);
    return r;
}

int rollout_session_start_agent(struct rollout_session *s, struct err *err) {
    pthread_mutex_lock(&s->work);
    int r = 0;
    if (atomic_load(&s->closing)) {
        r = err_set(err, ERR_STATE, "the session is closed");
    } else if (s->agent == SESSION_AGENT_NOT_STARTED && s->cause != ROLLOUT_CAUSE_NONE) {
        r = err_set(err, ERR_STATE, "the rollout has ended: %s", s->error);
    } else if (s->agent == SESSION_AGENT_NOT_STARTED) {
        session_phase(s, ROLLOUT_PHASE_AGENT);
        session_say(s, NULL, "agent running: %s", s->factory->agent->name);
        struct err own = {0};
        r = start(s, &own);
        if (r < 0) {
            session_note(s,
                         r == ERR_NOT_FOUND ? ROLLOUT_CAUSE_AGENT_INSTALL
                                            : rollout_cause_of(ROLLOUT_PHASE_AGENT, r),
                         &own);
            session_phase_end(s);
            if (err) {
                *err = own;
            }
        } else {
            s->agent = SESSION_AGENT_RUNNING;
        }
    }
    pthread_mutex_unlock(&s->work);
    return r;
}

static void note_ran(struct rollout_session *s) {
    s->agent_ran_s = (double)(clock_us() - s->agent_began_us) / 1e6;
}

/* A gateway inside is asked to end between the agent's death and that of everything else, so that
 * it can write down how the last calls ended. */
static void stop_inside(struct rollout_session *s) {
    struct err ignored = {0}; /* kill_all follows. */
    if (s->inside && s->agent == SESSION_AGENT_RUNNING && sandbox_job_kill(s->job, &ignored) < 0) {
        log_debug("%s: the agent did not end alone: %s", s->name, ignored.msg);
    }
    session_end_model(s);
}

void session_stop_agent(struct rollout_session *s) {
    if (s->sandbox && s->agent != SESSION_AGENT_NOT_STARTED && s->job) {
        struct err e = {0};
        stop_inside(s);
        if (sandbox_kill_all(s->sandbox, deadline_in_s(KILL_ALL_S), &e) < 0) {
            /* What lives on dies with the restart or the teardown that follows in every case. */
            log_warning("%s: cannot see the agent's processes dead: %s", s->name, e.msg);
            if (e.code == ERR_LOST) {
                session_fail(s, ROLLOUT_PHASE_AGENT, &e);
            }
        }
        pthread_rwlock_wrlock(&s->alive);
        sandbox_job_free(TAKE(s->job));
        pthread_rwlock_unlock(&s->alive);
    }
    if (s->agent == SESSION_AGENT_RUNNING) {
        s->agent = SESSION_AGENT_STOPPED;
        note_ran(s);
    }
    pthread_rwlock_wrlock(&s->alive);
    session_close_model(s);
    pthread_rwlock_unlock(&s->alive);
    if (s->phase == ROLLOUT_PHASE_AGENT) {
        session_phase_end(s);
    }
}

/* Stops the agent because of `why`, and gives that error. */
static int stop_for(struct rollout_session *s, enum rollout_cause cause, const struct err *why,
                    struct err *err) {
    session_note(s, cause, why);
    session_stop_agent(s);
    session_say(s, NULL, "%s", why->msg);
    if (err) {
        *err = *why;
    }
    return why->code;
}

/* Whether the rollout is lost while its agent goes on; fills `why`. */
static enum rollout_cause watch(struct rollout_session *s, struct err *why) {
    session_look_at_calls(s);
    if (s->stats.capture_fault && factory_captures(s->factory)) {
        err_set(why, ERR_FULL, "the journal refused a record: is there space left?");
        return ROLLOUT_CAUSE_CAPTURE_FAULT;
    }
    if (s->stats.failed_in_a_row >= UPSTREAM_DOWN_CALLS &&
        s->stats.failing_for_s >= s->budget.limits.upstream_down_s) {
        err_set(why, ERR_UPSTREAM, "the model endpoint failed %u calls in a row over %.0f s",
                s->stats.failed_in_a_row, s->stats.failing_for_s);
        return ROLLOUT_CAUSE_UPSTREAM_DOWN;
    }
    return ROLLOUT_CAUSE_NONE;
}

static bool must_call(const struct rollout_session *s) {
    const struct rollout_factory *f = s->factory;
    return f->o.require_calls || (f->agent->must_call && factory_captures(f));
}

/* What an agent's own end says about the rollout. */
static void judge_end(struct rollout_session *s) {
    struct err why = {0};
    if (s->stats.calls == 0 && must_call(s)) {
        err_set(&why, ERR_STATE, "the agent ended (exit %d) without a single model call",
                s->exit_code);
        session_note(s, ROLLOUT_CAUSE_AGENT_NO_CALLS, &why);
    } else if (s->stats.calls > 0 && s->stats.failed_in_a_row >= s->stats.calls) {
        err_set(&why, ERR_UPSTREAM, "the model endpoint answered none of the agent's %llu calls",
                (unsigned long long)s->stats.calls);
        session_note(s, ROLLOUT_CAUSE_UPSTREAM_DOWN, &why);
    } else if (s->exit_code != 0) {
        session_note(s, ROLLOUT_CAUSE_AGENT_CRASH, NULL);
    }
}

static int ended(struct rollout_session *s, int exit_code, int *out) {
    s->agent = SESSION_AGENT_ENDED;
    note_ran(s);
    s->exit_code = *out = exit_code;
    s->has_exit_code = true;
    session_stop_agent(s); /* What it left running must not outlive it. */
    judge_end(s);
    session_say(s, NULL, "agent finished: exit code %d", exit_code);
    return 0;
}

static int out_of_time(struct rollout_session *s, struct err *err) {
    struct err why = {0};
    err_set(&why, ERR_TIMEOUT, "agent timeout: it was stopped after %.0f s",
            (double)(clock_us() - s->phase_began_us) / 1e6);
    session_stop_agent(s);
    if (s->stats.calls == 0 && must_call(s)) {
        session_note(s, ROLLOUT_CAUSE_AGENT_NO_CALLS, &why);
    }
    return stop_for(s, ROLLOUT_CAUSE_AGENT_TIMEOUT, &why, err);
}

static int wait_locked(struct rollout_session *s, deadline_ms until, int *exit_code,
                       struct err *err) {
    for (;;) {
        struct err e = {0};
        /* A wait is a request to the provider too, where the gateway is inside. */
        deadline_ms tick = s->inside ? inside_next_look(s->inside) : deadline_in_ms(TICK_MS);
        deadline_ms next = deadline_min(tick, deadline_min(until, s->agent_until));
        int code = 0;
        int r = sandbox_job_wait(s->job, next, s->stop, &code, &e);
        if (r >= 0) {
            return ended(s, code, exit_code);
        }
        if (r != ERR_TIMEOUT) {
            return stop_for(s, rollout_cause_of(ROLLOUT_PHASE_AGENT, r), &e, err);
        }
        enum rollout_cause lost = watch(s, &e);
        if (lost != ROLLOUT_CAUSE_NONE) {
            return stop_for(s, lost, &e, err);
        }
        if (deadline_passed(s->agent_until)) {
            return out_of_time(s, err);
        }
        if (deadline_passed(until)) {
            return err_set(err, ERR_TIMEOUT, "the agent is still running");
        }
        session_tick(s);
    }
}

/* The agent is not running: says once more how it ended. */
static int told_before(const struct rollout_session *s, int *exit_code, struct err *err) {
    if (s->agent == SESSION_AGENT_ENDED) {
        *exit_code = s->exit_code;
        return 0;
    }
    if (s->agent == SESSION_AGENT_NOT_STARTED) {
        return err_set(err, ERR_STATE, "the agent was not started");
    }
    return err_set(err, s->error_code ? s->error_code : ERR_STATE, "%s",
                   s->error[0] ? s->error : "the agent was stopped");
}

int rollout_session_wait(struct rollout_session *s, double timeout_s, int *exit_code,
                         struct err *err) {
    deadline_ms until = timeout_s > 0 ? deadline_in_s(timeout_s) : DEADLINE_NEVER;
    pthread_mutex_lock(&s->work);
    int r = s->agent == SESSION_AGENT_RUNNING ? wait_locked(s, until, exit_code, err)
                                              : told_before(s, exit_code, err);
    pthread_mutex_unlock(&s->work);
    return r;
}
