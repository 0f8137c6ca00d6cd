/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/control.h"

#include "base/err.h"

const char *rollout_phase_name(enum rollout_phase phase) {
    switch (phase) {
#define ROLLOUT_PHASE_CASE_(name, field, verb)                                                     \
    case ROLLOUT_PHASE_##name:                                                                     \
        return field;
        ROLLOUT_PHASE_MAP(ROLLOUT_PHASE_CASE_)
#undef ROLLOUT_PHASE_CASE_
    case ROLLOUT_PHASE_COUNT:
        break;
    }
    BUG_IF(1);
}

const char *rollout_phase_text(enum rollout_phase phase) {
    switch (phase) {
#define ROLLOUT_PHASE_CASE_(name, field, verb)                                                     \
    case ROLLOUT_PHASE_##name:                                                                     \
        return verb;
        ROLLOUT_PHASE_MAP(ROLLOUT_PHASE_CASE_)
#undef ROLLOUT_PHASE_CASE_
    case ROLLOUT_PHASE_COUNT:
        break;
    }
    BUG_IF(1);
}
