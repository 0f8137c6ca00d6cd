/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TRAIN_FINDING_H
#define SNAFFLE_TRAIN_FINDING_H

#include <stdbool.h>

/*
 * The catalogue of findings: every code that a call or a rollout may carry, what it means, and what
 * to do. Codes don't change their meaning; new ones are added. docs/findings.md says the same, and
 * a test compares the two.
 */
enum finding_severity {
    FINDING_FATAL,   /* Of a call: it is not trainable. Of a rollout: it is not to be trained on. */
    FINDING_WARNING, /* Worth a look; does not change `trainable`. */
    FINDING_INFO,
};

struct finding_kind {
    const char *code;
    enum finding_severity severity;
    const char *meaning; /* One sentence, without a full stop. */
    const char *advice;  /* What to do; NULL: nothing. */
};

/* Each ends with a row without a code. */
extern const struct finding_kind finding_of_calls[];
extern const struct finding_kind finding_of_rollouts[];

/* NULL: a code that this version does not know. */
const struct finding_kind *finding_of_call(const char *code);
const struct finding_kind *finding_of_rollout(const char *code);

/* "fatal", "warning", "info" */
const char *finding_severity_name(enum finding_severity severity);

/* Whether a call that carries the code may be trained on. What is not known may mean anything, so
 * it may not. */
bool finding_is_fatal(const char *code);

#endif
