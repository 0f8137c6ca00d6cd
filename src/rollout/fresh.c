/* SPDX-License-Identifier: BSD-3-Clause */
/* Verify in a sandbox of its own, where a restart would leave the agent's traces. */
#include "base/json.h"
#include "base/log.h"
#include "rollout/session_impl.h"

bool session_verifies_fresh(const struct rollout_session *s) {
    const struct rollout_factory *f = s->factory;
    return f->o.verify_in == ROLLOUT_VERIFY_FRESH && f->backend->restart_is_clean;
}

static void let_go(struct rollout_session *s, struct sandbox *sandbox) {
    struct err err = {0};
    if (sandbox_kill(sandbox, &err) < 0) {
        log_warning("%s: cannot tear the agent's sandbox down: %s", s->name, err.msg);
        session_finding(s, "teardown_failed", "%s", err.msg);
    }
    sandbox_free(sandbox);
}

static struct sandbox *swap(struct rollout_session *s, struct sandbox *other) {
    pthread_rwlock_wrlock(&s->alive);
    struct sandbox *old = s->sandbox;
    s->sandbox = other;
    pthread_rwlock_unlock(&s->alive);
    return old;
}

int session_move_to_fresh(struct rollout_session *s, struct err *err) {
    struct sandbox *fresh = NULL;
    session_say(s, NULL, "creating another sandbox to verify in");
    int r = session_create_fresh(s, &fresh, err);
    if (r < 0) {
        return session_fail(s, ROLLOUT_PHASE_CREATE, err);
    }
    r = sandbox_carry_home(s->sandbox, fresh, deadline_in_s(BUDGET_CARRY_S), s->stop, err);
    if (r < 0) {
        sandbox_free(fresh);
        return session_fail(s, ROLLOUT_PHASE_VERIFY, err);
    }
    let_go(s, swap(s, fresh));
    s->network = session_network(s, TASK_VERIFY);
    return 0;
}

void session_note_reward(struct rollout_session *s) {
    if (session_verifies_fresh(s) && s->isolation &&
        json_object_set_new(s->isolation, "reward",
                            json_string("enforced: in a sandbox that the agent has never seen")) <
            0) {
        log_warning("%s: no memory to tell how the reward is kept", s->name);
    }
}
