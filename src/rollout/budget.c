/* SPDX-License-Identifier: BSD-3-Clause */
#include "rollout/budget.h"

static double first_given(double a, double b, double c) {
    return a > 0 ? a : b > 0 ? b : c;
}

struct rollout_budget rollout_budget_make(const struct rollout_limits *asked,
                                          const struct rollout_limits *task, double agent_s,
                                          bool verifies, int64_t now_ms) {
    struct rollout_budget b = {.end = DEADLINE_NEVER, .verifies = verifies};
    b.limits = (struct rollout_limits){
        .create_s = first_given(asked->create_s, task->create_s, BUDGET_CREATE_S),
        .install_s = first_given(asked->install_s, task->install_s, BUDGET_INSTALL_S),
        .setup_s = first_given(asked->setup_s, task->setup_s, BUDGET_SETUP_S),
        .agent_s =
            first_given(asked->agent_s, task->agent_s, first_given(agent_s, 0, BUDGET_AGENT_S)),
        .verify_command_s =
            first_given(asked->verify_command_s, task->verify_command_s, BUDGET_VERIFY_COMMAND_S),
        .verify_s = first_given(asked->verify_s, task->verify_s, BUDGET_VERIFY_S),
        .budget_s = first_given(asked->budget_s, task->budget_s, 0),
        .upstream_down_s =
            first_given(asked->upstream_down_s, task->upstream_down_s, BUDGET_UPSTREAM_DOWN_S),
    };
    if (b.limits.budget_s > 0) {
        b.end = now_ms + (int64_t)(b.limits.budget_s * 1000);
    }
    return b;
}

static double own_s(const struct rollout_limits *l, enum rollout_phase phase) {
    switch (phase) {
    case ROLLOUT_PHASE_CREATE:
        return l->create_s;
    case ROLLOUT_PHASE_INSTALL:
        return l->install_s;
    case ROLLOUT_PHASE_SETUP:
        return l->setup_s;
    case ROLLOUT_PHASE_AGENT:
        return l->agent_s;
    case ROLLOUT_PHASE_VERIFY:
        return l->verify_s;
    case ROLLOUT_PHASE_COLLECT:
        return BUDGET_COLLECT_S;
    case ROLLOUT_PHASE_TEARDOWN:
        return BUDGET_TEARDOWN_S;
    case ROLLOUT_PHASE_COUNT:
        break;
    }
    BUG_IF(1);
}

double rollout_budget_phase_s(const struct rollout_budget *b, enum rollout_phase phase,
                              int64_t now_ms) {
    double own = own_s(&b->limits, phase);
    if (b->end == DEADLINE_NEVER || phase >= ROLLOUT_PHASE_COLLECT) {
        return own; /* Collecting and teardown happen whatever the budget says. */
    }
    double left = (double)(b->end - now_ms) / 1000 - BUDGET_RESERVE_S;
    if (phase < ROLLOUT_PHASE_VERIFY && b->verifies) {
        left -= b->limits.verify_s;
    }
    if (left < 0) {
        return 0;
    }
    return own < left ? own : left;
}

double rollout_budget_lifetime_s(const struct rollout_budget *b) {
    const struct rollout_limits *l = &b->limits;
    double sum = l->create_s + l->install_s + l->setup_s + l->agent_s +
                 (b->verifies ? l->verify_s : 0) + BUDGET_COLLECT_S + BUDGET_TEARDOWN_S;
    double whole = l->budget_s + BUDGET_COLLECT_S + BUDGET_TEARDOWN_S;
    return l->budget_s > 0 && whole < sum ? whole : sum;
}
