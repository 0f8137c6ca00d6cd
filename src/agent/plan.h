/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_AGENT_PLAN_H
#define SNAFFLE_AGENT_PLAN_H

#include "agent/agent.h"
#include "base/buf.h"

/* What an agent knows of making its plan. */
struct plan_maker {
    int (*check)(const struct agent_config *config, const struct agent_job *job, struct err *err);
    int (*build)(const struct agent_config *config, const struct agent_job *job,
                 struct agent_plan *p, struct err *err);
};

/* `out` is written when all went well only. */
int plan_make(const struct plan_maker *maker, const struct agent_config *config,
              const struct agent_job *job, struct agent_plan *out, struct err *err) CHECK_RESULT;

/* Filling an agent_plan. Every function copies what it is given; out of memory is their one error.
 */

/* Adds a file below `home`. */
int plan_add_file(struct agent_plan *p, const char *home, const char *rest, struct sv content,
                  struct err *err) CHECK_RESULT;
int plan_add_arg(struct agent_plan *p, const char *arg, struct err *err) CHECK_RESULT;
/* NAME=value; an earlier line of that name goes. */
int plan_set_env(struct agent_plan *p, const char *name, const char *value,
                 struct err *err) CHECK_RESULT;
/* SNAFFLE_DEADLINE, by which the agent must have ended: seconds since 1970; 0: none. */
int plan_set_deadline(struct agent_plan *p, double unix_s, struct err *err) CHECK_RESULT;
/* What an image's configuration asks for (["NAME=value"]; NULL: nothing), where the plan says
 * nothing: but PATH's folders, which come before the plan's unless the user set one. The way to the
 * model stays ours: no proxy, no OPENAI_*. */
int plan_add_image_env(struct agent_plan *p, const json_t *image_env,
                       const struct agent_config *config, struct err *err) CHECK_RESULT;
/* `out` is one of the plan's own fields; gives "<home><rest>". */
int plan_set_path(char **out, const char *home, const char *rest, struct err *err) CHECK_RESULT;

/* ERR_INPUT unless it is absolute, of letters, digits and "._-/" only: it stands in configuration
 * texts that have a substitution syntax of their own. */
int plan_check_home(const char *home, struct err *err) CHECK_RESULT;

#endif
