/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_BATCH_SUM_H
#define SNAFFLE_ROLLOUT_BATCH_SUM_H

#include "rollout/batch_plan.h"

/* What a batch amounts to, so far or in the end. Pure. */

struct batch_totals {
    size_t rollouts;
    size_t waiting;
    size_t running;
    size_t resting;                       /* Until another attempt. */
    size_t in_phase[ROLLOUT_PHASE_COUNT]; /* Of those that run. */
    size_t kept;                          /* Ended before, and among the next three. */
    size_t ok;
    size_t failed;
    size_t cancelled;
    size_t again; /* Needed more than one attempt. */
    size_t rewarded;
    double reward_sum;
    unsigned long long calls; /* With those of rollouts that run; and without the kept ones: */
    unsigned long long completion_tokens;
    unsigned long long own_tokens;
};

void batch_totals(const struct batch_plan *p, struct batch_totals *out);

#define BATCH_PASS_REWARD (1.0 - 1e-9) /* A full reward, whatever it was summed up from. */

/* The unbiased estimate of "one of k passes" from n rollouts of which c passed: 1 -
 * C(n-c,k)/C(n,k). Wants 1 <= k <= n and c <= n. */
double batch_pass_at(size_t n, size_t c, size_t k);

/* Its mean over the groups with at least k rewarded rollouts, whose number is given; 0: none. */
size_t batch_mean_pass_at(const struct batch_plan *p, size_t k, double *out);

/* Seconds until `left` more have ended when `done` took `elapsed_s`; negative: not known yet. */
double batch_eta_s(size_t done, size_t left, double elapsed_s);

/* {"upstream_down": 2 ...}: how many ended with each cause. NULL: no memory. */
json_t *batch_causes(const struct batch_plan *p);

/* The one object of --json: run, dir, totals, groups, rollouts. Gives; NULL: no memory. */
json_t *batch_to_json(const struct batch_plan *p, const char *run, const char *dir, double wall_s);

/* 0: all rollouts ended with status ok; 130: cancelled; else 1. */
int batch_exit_status(const struct batch_plan *p, bool cancelled);

#endif
