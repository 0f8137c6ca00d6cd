/* SPDX-License-Identifier: BSD-3-Clause */
/* Which weights the engine runs: one word for all sessions of a factory, which a trainer changes
 * while they run. */
#include <stdlib.h>

#include "base/mem.h"
#include "rollout/session_impl.h"

char *factory_policy(struct rollout_factory *f, unsigned *serial) {
    pthread_mutex_lock(&f->lock);
    *serial = f->policy_serial;
    char *copy = mem_strdup(f->policy_serial > 0 ? f->policy_version : f->o.config->policy_version);
    pthread_mutex_unlock(&f->lock);
    return copy;
}

/* A gateway inside a sandbox can't be told: its calls keep the version of its start, and the result
 * says so. */
static int tell(struct rollout_session *s, const char *version, struct err *err) {
    if (!s->gateway) {
        s->policy_changed = true;
        return 0;
    }
    return gateway_session_set_policy_version(s->gateway, version, err);
}

int factory_enter(struct rollout_session *s, unsigned serial, struct err *err) {
    struct rollout_factory *f = s->factory;
    pthread_mutex_lock(&f->lock);
    s->next_live = f->live;
    f->live = s;
    /* Else it was changed since the session was opened. */
    int r = serial == f->policy_serial ? 0 : tell(s, f->policy_version, err);
    pthread_mutex_unlock(&f->lock);
    return r;
}

void factory_leave(struct rollout_session *s) {
    struct rollout_factory *f = s->factory;
    pthread_mutex_lock(&f->lock);
    struct rollout_session **at = &f->live;
    while (*at && *at != s) {
        at = &(*at)->next_live;
    }
    if (*at) {
        *at = s->next_live;
    }
    pthread_mutex_unlock(&f->lock);
}

int rollout_factory_set_policy_version(struct rollout_factory *f, const char *version,
                                       struct err *err) {
    char *copy = mem_strdup(version);
    int r = 0;
    if (version && !copy) {
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    pthread_mutex_lock(&f->lock);
    free(f->policy_version);
    f->policy_version = copy;
    f->policy_serial++;
    for (struct rollout_session *s = f->live; s; s = s->next_live) {
        struct err one = {0};
        int code = tell(s, version, &one);
        if (code < 0 && r == 0) {
            r = code;
            if (err) {
                *err = one;
            }
        }
    }
    pthread_mutex_unlock(&f->lock);
    return r;
}

int rollout_session_set_policy_version(struct rollout_session *s, const char *version,
                                       struct err *err) {
    struct rollout_factory *f = s->factory;
    pthread_mutex_lock(&f->lock);
    struct rollout_session *live = f->live;
    while (live && live != s) {
        live = live->next_live;
    }
    int r = 0;
    if (!live) {
        r = err_set(err, ERR_STATE, "the agent has ended: it makes no more calls");
    } else if (!s->gateway) {
        r = err_set(
            err, ERR_UNSUPPORTED,
            "with capture 'sandbox' the version can't change under an agent (use 'public')");
    } else {
        r = gateway_session_set_policy_version(s->gateway, version, err);
    }
    pthread_mutex_unlock(&f->lock);
    return r;
}
