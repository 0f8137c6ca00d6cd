/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_CONFIG_MACHINE_H
#define SNAFFLE_ROLLOUT_CONFIG_MACHINE_H

#include "base/json.h"
#include "sandbox/sandbox.h"

/* The configuration's fields about the machine that a sandbox is; what they may hold is the
 * backend's to say, when it is known. */

/* Reads the fields that are there over what *m holds, which borrows from the object. */
int config_machine_read(struct json_at at, struct sandbox_machine *m, struct err *err) CHECK_RESULT;

/* Sets the fields as they hold, variables by their names alone. */
int config_machine_put(const struct sandbox_machine *m, json_t *out) CHECK_RESULT;

/* The names of the object's members. NULL: no memory. */
json_t *config_names_of(const json_t *object);

#endif
