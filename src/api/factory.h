/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_API_FACTORY_H
#define SNAFFLE_API_FACTORY_H

#include "api/settings.h"
#include "rollout/session.h"
#include "rollout/task.h"

struct snaffle_factory {
    struct settings settings;
    struct rollout_factory *inner;
};

struct snaffle_session {
    struct rollout_session *inner; /* NULL while it is made. */
    struct task task;
    struct rollout_names names;
    struct rollout_control control;
    snaffle_progress_fn progress;
    void *progress_arg;
};

/* Reads the caller's options into a session that has no inner yet; a session that must not be
 * moved, since its control points to it. api_session_free releases it. */
int api_session_begin(const snaffle_session_options *options, snaffle_session **out,
                      struct err *err) CHECK_RESULT;
void api_session_free(snaffle_session *s);

#endif
