/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_TOOL_RULES_H
#define SNAFFLE_SERVER_TOOL_RULES_H

#include <stdbool.h>

#include "base/err.h"
#include "net/url.h"

/*
 * What a call from outside may name, as --allow has it:
 *
 *     upstream=[SCHEME://]HOST[:PORT][/PATH]    each part a glob; what is left out matches anything
 *     network=full
 *     backend=NAME
 *     image=GLOB
 *     flavor=GLOB
 *
 * `allow` is a NULL-ended list of such texts, or NULL.
 */

/* ERR_INPUT for a text that is no such rule. */
int rules_check(const char *const *allow, struct err *err) CHECK_RESULT;

/* `what`: "network", "backend", "image", "flavor". */
bool rules_allow(const char *const *allow, const char *what, const char *value);
bool rules_allow_upstream(const char *const *allow, const struct url *u);

#endif
