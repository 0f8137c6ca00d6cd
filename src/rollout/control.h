/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_CONTROL_H
#define SNAFFLE_ROLLOUT_CONTROL_H

#include <stdint.h>

#include "base/cancel.h"

/*
 * What the caller of a rollout holds on to while it runs: two switches, and who is told what
 * happens. Copied; what it points to is kept.
 */

/* name, the field of result.json's `phases`, and the verb that progress lines begin with */
#define ROLLOUT_PHASE_MAP(X)                                                                       \
    X(CREATE, "create", "creating sandbox")                                                        \
    X(INSTALL, "install", "placing agent and files")                                               \
    X(SETUP, "setup", "setup")                                                                     \
    X(AGENT, "agent", "agent running")                                                             \
    X(VERIFY, "verify", "verify")                                                                  \
    X(COLLECT, "collect", "collecting")                                                            \
    X(TEARDOWN, "teardown", "tearing down")

enum rollout_phase {
#define ROLLOUT_PHASE_ENUM_(name, field, verb) ROLLOUT_PHASE_##name,
    ROLLOUT_PHASE_MAP(ROLLOUT_PHASE_ENUM_)
#undef ROLLOUT_PHASE_ENUM_
        ROLLOUT_PHASE_COUNT
};

const char *rollout_phase_name(enum rollout_phase phase); /* "create" */
const char *rollout_phase_text(enum rollout_phase phase); /* "creating sandbox" */

/* Something happened, or (in the agent's phase) a second went by. */
struct rollout_event {
    enum rollout_phase phase;
    const char *text;   /* One line without its end: "setup [2/3]", "agent running". Borrowed. */
    const char *detail; /* The command of that step, or NULL. Borrowed. */
    bool tick;          /* Nothing new but the figures: for terminals that redraw a line. */
    double elapsed_s;   /* Since the rollout began. */
    uint64_t calls;     /* Model calls so far, and the tokens they gave. */
    uint64_t completion_tokens;
};

/* Called on the thread that does the work; must not call back into the session. */
typedef void (*rollout_progress_fn)(void *arg, const struct rollout_event *event);

struct rollout_control {
    const struct cancel *cancel; /* Ends the work; what there is gets collected, then torn down. */
    const struct cancel *hard;   /* Thrown after `cancel`: nothing is collected any more. */
    rollout_progress_fn progress;
    void *progress_arg;
};

#endif
