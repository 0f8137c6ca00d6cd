/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SNAFFLE_ROLLOUT_CONFIG_H
#define SNAFFLE_ROLLOUT_CONFIG_H

#include <jansson.h>

#include "agent/agent.h"
#include "base/err.h"
#include "sandbox/sandbox.h"

/*
 * The configuration of an agent and its sandbox: the reference's fields and defaults, from several
 * layers of JSON objects. A later layer wins: objects (extra_opencode_json, extra_env) are merged
 * key by key and deep, all else is replaced, and null puts a field back to its default
 * (proxy_max_tokens_cap: no cap; enabled_tools, system_prompt, extra_setup_shell, agent_cmd,
 * mounts, rootfs, capture, public_url, listen, policy_version: none; image, flavor and their like:
 * the backend's).
 *
 *     struct config_layer layers[] = {{file, "config.json"}, {flags, "the command line"}};
 *     struct config_defaults d = {agent_opencode.default_version, sandbox_local.home};
 *     r = config_build(layers, 2, &d, &c, err);
 *     c.agent.base_url = endpoint.base_url;   (kept: the endpoint must outlive the config)
 */

#define CONFIG_BYTES_MAX (4u << 20) /* System prompt and extra settings; a megabyte is a lot. */

struct config_layer {
    const json_t *object; /* NULL: an empty layer. */
    const char *where;    /* For messages. */
};

/* Defaults that hang on the agent and the backend; static strings. NULL: none, "/home/user". */
struct config_defaults {
    const char *agent_version;
    const char *sandbox_home;
};

struct config {
    struct agent_config agent;      /* base_url is NULL unless a layer gave it. */
    struct sandbox_machine machine; /* Zero where no layer says anything. */
    json_t *merged;                 /* What both point into. Private. */
};

/* Reads a file and checks that it is an object with known fields. Gives the object. */
int config_load(const char *path, json_t **out, struct err *err) CHECK_RESULT;

/* Checks each layer by itself (messages name it), merges, fills the defaults. Borrows the layers.
 */
int config_build(const struct config_layer *layers, size_t n,
                 const struct config_defaults *defaults, struct config *out,
                 struct err *err) CHECK_RESULT;

/* Gives all fields as they hold, but api_key, and extra_env, env and secrets as their names alone
 * (extra_env_names, env_names, secret_names): to print and store. NULL: no memory. */
json_t *config_to_json(const struct config *c);

void config_deinit(struct config *c);

extern const char *const config_fields[]; /* NULL-ended; for flags of the same names. */

#endif
