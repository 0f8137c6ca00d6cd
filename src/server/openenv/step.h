/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_OPENENV_STEP_H
#define SNAFFLE_SERVER_OPENENV_STEP_H

#include "base/buf.h"
#include "server/openenv/faults.h"
#include "server/openenv/sessions.h"

/* OpenEnv's reset and step of an environment, and their answers: {"observation", "reward", "done"}.
 * Loop thread only. */

struct action {
    bool lists; /* list_tools; else call_tool. */
    struct sv tool;
    const json_t *arguments; /* NULL: none. */
};

/* What is wrong goes to `f`. Borrows from `data`, an object. */
void action_read(const json_t *data, struct faults *f, struct action *out);

struct step;

struct step_options {
    struct loop *loop;
    struct tool_box *tools;
    const char *client;                            /* Lent to step_start. */
    struct session *session;                       /* NULL: an environment for this step alone. */
    double timeout_s;                              /* 0: as long as the tool takes. */
    void (*on_done)(void *arg, struct sv payload); /* Empty: no memory. The step is gone. */
    void *arg;
};

/* on_done may come from inside the call, and *out is NULL then. Borrows the action. */
void step_start(const struct step_options *o, const struct action *a, struct step **out);
/* on_done comes no more; the rollout is cancelled. Accepts NULL. */
void step_drop(struct step *s);

/* Appends the answer to a reset. */
int step_put_reset(const struct environment *e, struct buf *out) CHECK_RESULT;

#endif
