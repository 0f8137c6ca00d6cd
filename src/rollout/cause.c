/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/cause.h"

#include <string.h>

static const struct rollout_cause_row rows[ROLLOUT_CAUSE_COUNT] = {
#define ROLLOUT_CAUSE_ROW_(name, word, status, graded, retry)                                      \
    [ROLLOUT_CAUSE_##name] = {word, status, ROLLOUT_GRADED_##graded, ROLLOUT_RETRY_##retry},
    ROLLOUT_CAUSE_MAP(ROLLOUT_CAUSE_ROW_)
#undef ROLLOUT_CAUSE_ROW_
};

const struct rollout_cause_row *rollout_cause_row(enum rollout_cause cause) {
    BUG_IF(cause >= ROLLOUT_CAUSE_COUNT);
    return &rows[cause];
}

bool rollout_cause_graded(enum rollout_cause cause, enum rollout_verify_on on) {
    switch (rollout_cause_row(cause)->graded) {
    case ROLLOUT_GRADED_ALWAYS:
        return true;
    case ROLLOUT_GRADED_UNLESS_CLEAN:
        return on != ROLLOUT_VERIFY_CLEAN;
    case ROLLOUT_GRADED_NEVER:
        break;
    }
    return false;
}

bool rollout_cause_retried(enum rollout_cause cause, unsigned attempt, unsigned retries) {
    switch (rollout_cause_row(cause)->retry) {
    case ROLLOUT_RETRY_ONCE:
        return attempt == 1;
    case ROLLOUT_RETRY_BACKOFF:
        return attempt <= retries;
    case ROLLOUT_RETRY_NEVER:
        break;
    }
    return false;
}

bool rollout_cause_replaces(enum rollout_cause was, enum rollout_cause now) {
    if (was == ROLLOUT_CAUSE_NONE) {
        return true;
    }
    return strcmp(rollout_cause_row(was)->status, "ok") == 0 &&
           strcmp(rollout_cause_row(now)->status, "ok") != 0;
}

/* Errors that mean the same in every phase; NONE for all others. */
static enum rollout_cause cause_of_code(int code) {
    switch (code) {
    case ERR_CANCELLED:
        return ROLLOUT_CAUSE_CANCELLED;
    case ERR_LOST:
        return ROLLOUT_CAUSE_SANDBOX_LOST;
    case ERR_QUOTA:
        return ROLLOUT_CAUSE_QUOTA;
    case ERR_NOMEM:
    case ERR_INTERNAL:
        return ROLLOUT_CAUSE_INTERNAL;
    default:
        return ROLLOUT_CAUSE_NONE;
    }
}

enum rollout_cause rollout_cause_of(enum rollout_phase phase, int code) {
    enum rollout_cause same = cause_of_code(code);
    if (phase == ROLLOUT_PHASE_CREATE && same == ROLLOUT_CAUSE_SANDBOX_LOST) {
        return ROLLOUT_CAUSE_SANDBOX_CREATE;
    }
    if (same != ROLLOUT_CAUSE_NONE) {
        return same;
    }
    switch (phase) {
    case ROLLOUT_PHASE_CREATE:
        return ROLLOUT_CAUSE_SANDBOX_CREATE;
    case ROLLOUT_PHASE_INSTALL:
        return ROLLOUT_CAUSE_AGENT_INSTALL;
    case ROLLOUT_PHASE_SETUP:
        return ROLLOUT_CAUSE_SETUP_FAILED;
    case ROLLOUT_PHASE_AGENT:
        return code == ERR_UPSTREAM ? ROLLOUT_CAUSE_UPSTREAM_DOWN : ROLLOUT_CAUSE_INTERNAL;
    case ROLLOUT_PHASE_VERIFY:
        return code == ERR_TIMEOUT ? ROLLOUT_CAUSE_VERIFY_TIMEOUT : ROLLOUT_CAUSE_VERIFY_CRASH;
    case ROLLOUT_PHASE_COLLECT:
    case ROLLOUT_PHASE_TEARDOWN:
    case ROLLOUT_PHASE_COUNT:
        break;
    }
    return ROLLOUT_CAUSE_INTERNAL;
}
