/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_TESTS_HOSTILE_HOSTILE_H
#define SNAFFLE_TESTS_HOSTILE_HOSTILE_H

#include "base/json.h"
#include "base/mem.h"
#include "tests/rollout/ground.h"
#include "tests/sandbox/local_world.h"
#include "tests/testing.h"

/*
 * Whole rollouts with the scripts of agents/ for their agent: programs that do all they can to be
 * graded better, to get out, to hang and to hurt.
 */

/* Runs the task (JSON text, with ' for "; it has no instruction) with agents/NAME. A .sh is run by
 * bash, a .py by python3; `vars`, lines of shell, come before it. */
void hostile_roll(struct ground *g, const char *agent, const char *vars, const char *task,
                  const struct rollout_control *control, struct rollout_result *out);

/* The task of such a rollout, for those who drive a session themselves. */
void hostile_task(const char *agent, const char *vars, const char *task, struct task *out);

/* Fails with the result's own words when it is not what was wanted. */
void hostile_assert_ok(const struct rollout_result *r, const char *agent);
void hostile_assert_reward(const struct rollout_result *r, const char *agent, double want);

/* A file of the work folder as the result shows it; "" when it does not. */
const char *hostile_file(const struct rollout_result *r, const char *name);

bool hostile_has_finding(const struct rollout_result *r, const char *code);

/* Whether the big forms are to run (1 GB, thousands), which need minutes. */
bool hostile_is_long(void);

#define HOSTILE_CASE(name) cmocka_unit_test_setup_teardown(name, ground_set_up, ground_take_down)

/* main of each program here. */
#define HOSTILE_MAIN(tests)                                                                        \
    int main(int argc, char **argv) {                                                              \
        hostile_enter(argc, argv);                                                                 \
        int failed = cmocka_run_group_tests(tests, NULL, NULL);                                    \
        return world_leave() ? failed : 1;                                                         \
    }
void hostile_enter(int argc, char **argv); /* Knows --as-user and --long. */

#endif
