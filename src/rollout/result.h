/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_RESULT_H
#define SNAFFLE_ROLLOUT_RESULT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "rollout/factory.h"

/*
 * The result of a rollout: the reference's RolloutResult by the same names and types, and ours
 * (docs/schema/result.schema.json). Always valid UTF-8.
 */
struct rollout_result {
    json_t *json;       /* Owned. */
    const char *status; /* "ok", "failed", "cancelled"; borrowed from `json`, as the next. */
    const char *cause;  /* Or NULL. */
    const char *error;  /* One line, or NULL. */
    bool has_reward;
    double reward;
    char *dir;  /* runs/<run>/<rollout>; owned. */
    bool lacks; /* It failed because this machine lacks something. */
};

void rollout_result_deinit(struct rollout_result *r);

/* 0 ok, 1 failed, 3 failed for want of something on this machine, 130 cancelled. */
int rollout_result_exit_status(const struct rollout_result *r);

/*
 * The whole: create, start, wait, verify, close, with the further attempts that the table of causes
 * allows. Once the rollout has begun every failure is a result, also of the sandbox's creation;
 * an error means that nothing was begun, or that its folder could not be written.
 */
int rollout_run(struct rollout_factory *f, const struct task *task,
                const struct rollout_names *names, const struct rollout_control *control,
                struct rollout_result *out, struct err *err) CHECK_RESULT;

/*
 * A single attempt of it, for callers that have something better to do than to wait for the next.
 * `tries`: how many this caller made, with this one. *again_s: seconds until another is to be made,
 * with names that hold the result's rollout and the attempt after this; negative: this was the
 * last.
 */
int rollout_try(struct rollout_factory *f, const struct task *task,
                const struct rollout_names *names, const struct rollout_control *control,
                unsigned tries, struct rollout_result *out, double *again_s,
                struct err *err) CHECK_RESULT;

#endif
