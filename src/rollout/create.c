/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "rollout/capture.h"

#define CREATE_ATTEMPTS                                                                            \
    3 /* As the reference: creation is the flakiest step of a remote backend.                      \
       */
#define CREATE_BACKOFF_S 2.0
#define READY_S 30 /* The first command of a fresh sandbox. */

bool session_has_setup(const struct rollout_session *s) {
    return s->task->n_setup > 0 || s->factory->o.config->extra_setup_shell;
}

enum sandbox_network session_network(const struct rollout_session *s, enum task_phase phase) {
    const struct task_network *own = &s->task->network[phase];
    if (phase == TASK_SETUP && s->factory->o.setup_offline && !own->given) {
        return session_network(s, TASK_AGENT);
    }
    return own->word;
}

void session_spec(const struct rollout_session *s, enum task_phase phase,
                  enum sandbox_network network, struct sandbox_spec *out) {
    const struct rollout_factory *f = s->factory;
    /* The verifier has no use for the agent's own. */
    size_t own = f->installed.folder && factory_mounts_agent(f) && phase != TASK_VERIFY ? 1 : 0;
    *out = (struct sandbox_spec){
        .owner = f->owner,
        .run = f->run,
        .rollout = s->rollout,
        .lifetime_s = rollout_budget_lifetime_s(&s->budget),
        .home = f->o.config->sandbox_home,
        .network = network,
        .limits = {.memory_mb = s->task->limits.memory_mb,
                   .processes = s->task->limits.processes,
                   .disk_mb = s->task->limits.disk_mb},
        .mounts = f->mounts + 1 - own,
        .n_mounts = f->n_mounts + own,
        .rootfs = f->o.config->rootfs,
        .machine = factory_machine(f),
        .strict = f->o.strict,
    };
}

/* Makes the folders that everything else is placed in; also the proof that commands run. */
static int make_folders(struct sandbox *sandbox, const struct cancel *cancel, struct err *err) {
    const char *argv[] = {"mkdir", "-p", "workdir", "task", "logs/agent", "logs/verifier", NULL};
    struct sandbox_output out = {0};
    int r = sandbox_exec(sandbox,
                         &(struct sandbox_exec){.argv = argv,
                                                .clean = true,
                                                .cwd = sandbox_home(sandbox),
                                                .timeout_s = READY_S,
                                                .cancel = cancel},
                         &out, err);
    if (r >= 0 && out.exit_code != 0) {
        r = err_set(err, ERR_SYS, "the sandbox does not come up: mkdir gave %d: %.200s",
                    out.exit_code, buf_cstr(&out.err));
    }
    sandbox_output_deinit(&out);
    return r;
}

/* One attempt; leaves nothing behind when it fails, and its own error stands. */
static int create_once(const struct rollout_session *s, const struct sandbox_spec *spec,
                       deadline_ms until, struct sandbox **out, struct err *err) {
    struct sandbox *sandbox = NULL;
    int r = sandbox_create(s->factory->backend, spec, until, s->stop, &sandbox, err);
    if (r < 0) {
        return r;
    }
    r = make_folders(sandbox, s->stop, err);
    if (r < 0) {
        struct err ignored = {0};
        if (sandbox_kill(sandbox, &ignored) < 0) {
            log_warning("%s: cannot tear down a sandbox that did not come up: %s", s->name,
                        ignored.msg);
        }
        sandbox_free(sandbox);
        return r;
    }
    *out = sandbox;
    return 0;
}

/* What another attempt is to be made of; a spec without what this machine can't give. */
struct attempt {
    struct sandbox_spec spec;
    enum task_phase phase;
};

/* An outside network that this machine can't give is done without, and said, unless `strict`. */
static int create_or_offline(struct rollout_session *s, struct attempt *a, deadline_ms until,
                             struct sandbox **out, struct err *err) {
    int r = create_once(s, &a->spec, until, out, err);
    bool cannot = r == ERR_UNSUPPORTED || r == ERR_ENVIRONMENT;
    if (!cannot || a->phase != TASK_SETUP || a->spec.network != SANDBOX_NETWORK_FULL ||
        a->spec.strict) {
        return r;
    }
    struct err first = *err;
    a->spec.network = SANDBOX_NETWORK_MODEL;
    r = create_once(s, &a->spec, until, out, err);
    if (r < 0) {
        a->spec.network = SANDBOX_NETWORK_FULL;
        return r;
    }
    session_finding(s, "setup_offline", "setup has no outside network: %s", first.msg);
    *err = (struct err){0};
    return 0;
}

static bool may_try_again(int code) {
    return code != ERR_CANCELLED && code != ERR_ENVIRONMENT && code != ERR_UNSUPPORTED &&
           code != ERR_INPUT && code != ERR_NOMEM;
}

/* Tries again what is worth it; the first error stands. */
static int create_patiently(struct rollout_session *s, struct attempt *a, struct sandbox **out,
                            struct err *err) {
    const struct rollout_options *o = &s->factory->o;
    unsigned attempts = o->create_attempts ? o->create_attempts : CREATE_ATTEMPTS;
    double backoff_s = o->create_backoff_s > 0 ? o->create_backoff_s : CREATE_BACKOFF_S;
    deadline_ms until = session_deadline(s, ROLLOUT_PHASE_CREATE);
    struct err first = {0};
    for (unsigned n = 1;; n++) {
        struct err e = {0};
        int r = create_or_offline(s, a, until, out, &e);
        if (r >= 0) {
            return 0;
        }
        if (n == 1 || r == ERR_CANCELLED) {
            first = e;
        }
        if (n == attempts || !may_try_again(r) || deadline_passed(until)) {
            break;
        }
        session_say(s, NULL, "sandbox did not come up (attempt %u of %u): %s", n, attempts, e.msg);
        if (cancel_sleep(s->stop, deadline_min(until, deadline_in_s(backoff_s)), &e) < 0) {
            first = e;
            break;
        }
        backoff_s *= 2;
    }
    if (err) {
        *err = first;
    }
    return first.code;
}

static int create_first(struct rollout_session *s, struct err *err) {
    struct attempt a = {.phase = session_has_setup(s) ? TASK_SETUP : TASK_AGENT};
    session_spec(s, a.phase, session_network(s, a.phase), &a.spec);
    int r = create_patiently(s, &a, &s->sandbox, err);
    if (r == 0) {
        s->network = a.spec.network;
        snprintf(s->sandbox_id, sizeof s->sandbox_id, "%s", sandbox_id(s->sandbox));
    }
    return r;
}

int session_create_fresh(struct rollout_session *s, struct sandbox **out, struct err *err) {
    struct attempt a = {.phase = TASK_VERIFY};
    session_spec(s, a.phase, session_network(s, a.phase), &a.spec);
    a.spec.lifetime_s = rollout_budget_phase_s(&s->budget, ROLLOUT_PHASE_VERIFY, clock_ms()) +
                        BUDGET_CREATE_S + BUDGET_CARRY_S + BUDGET_COLLECT_S + BUDGET_TEARDOWN_S;
    return create_patiently(s, &a, out, err);
}

/* The sandbox of the agent's phase, if setup ran in one of another kind. */
static int to_agent_phase(struct rollout_session *s, struct err *err) {
    enum sandbox_network network = session_network(s, TASK_AGENT);
    if (s->network == network) {
        return 0;
    }
    struct sandbox_spec spec;
    session_spec(s, TASK_AGENT, network, &spec);
    int r =
        sandbox_restart(s->sandbox, &spec, session_deadline(s, ROLLOUT_PHASE_CREATE), s->stop, err);
    if (r >= 0) {
        s->network = network;
    }
    return r;
}

int session_prepare(struct rollout_session *s, struct err *err) {
    session_phase(s, ROLLOUT_PHASE_CREATE);
    session_say(s, NULL, "creating %s sandbox", s->factory->backend->name);
    int r = create_first(s, err);
    if (r < 0) {
        return session_fail(s, ROLLOUT_PHASE_CREATE, err);
    }
    session_say(s, NULL, "sandbox ready: %s", s->sandbox_id);
    session_phase(s, ROLLOUT_PHASE_INSTALL);
    r = session_place(s, err);
    if (r < 0) {
        return session_fail(s, ROLLOUT_PHASE_INSTALL, err);
    }
    if (session_has_setup(s)) {
        session_phase(s, ROLLOUT_PHASE_SETUP);
        r = session_setup(s, err);
        if (r < 0) {
            return session_fail(s, ROLLOUT_PHASE_SETUP, err);
        }
        r = to_agent_phase(s, err);
        if (r < 0) {
            return session_fail(s, ROLLOUT_PHASE_CREATE, err);
        }
    }
    r = session_start_model(s, err);
    if (r < 0) {
        return r;
    }
    session_phase_end(s);
    s->isolation = sandbox_isolation(s->sandbox);
    session_note_isolation(s);
    session_note_reward(s);
    return 0;
}
