/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_SERVER_TOOL_ARGUMENTS_H
#define SNAFFLE_SERVER_TOOL_ARGUMENTS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "rollout/budget.h"
#include "rollout/catalog.h"
#include "rollout/config.h"
#include "rollout/factory.h"
#include "rollout/task.h"
#include "server/tool/tool.h"

/* The table of arguments: name, type and default as JSON Schema has them, and what it is. */
struct argument {
    const char *name;
    const char *schema; /* A JSON object. */
    const char *what;
};
extern const struct argument argument_table[]; /* Ends with a NULL name. */

/* The table as a JSON Schema, with the defaults that hold under these options. The caller owns it;
 * NULL: no memory. */
json_t *argument_schema(const struct tool_options *o);

#define ARGUMENT_AGENT_S 600.0 /* The tool's default for agent_timeout_s, as the reference. */

/* A call's arguments as a rollout takes them. Zero is empty; `options` points into the others. */
struct tool_request {
    json_t *arguments;
    struct task task;
    struct endpoint endpoint;
    struct config config;
    struct rollout_options options; /* Without `records`. */
    bool include_prompt_ids;
    bool ignored_template; /* A template was named, and the backend has none. */
};

/* Checks all of it, and what the operator allows; resolves the model's host, so this blocks. Keeps
 * a reference to `arguments` (NULL: none given). ERR_INPUT, ERR_DENIED, ERR_UNSUPPORTED. */
int tool_request_read(const struct tool_options *o, json_t *arguments, struct tool_request *out,
                      struct err *err) CHECK_RESULT;
void tool_request_deinit(struct tool_request *r);

/* What the tool's own defaults make of the configuration, under what the operator configured: an
 * object. The caller owns it; NULL: no memory. */
json_t *argument_defaults(const struct tool_options *o);

/* The limits of a call that names none. */
struct rollout_budget tool_budget(const struct tool_options *o);
/* How long a rollout with these limits takes at most, each attempt and the pauses between. */
double tool_limit_s(const struct tool_options *o, const struct rollout_budget *b);

#endif
